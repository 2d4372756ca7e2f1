//! How the server is known: by the pin of its key, and by a signature that only that key can make.
//!
//! Names, dates and issuers of the certificate are not looked at. What went wrong is remembered beside the handshake,
//! because an alert number does not say it. Session tickets are off: every connection proves the key anew.

use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{SHA256, digest};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::wire::version::ALPN;

/// Why a server was not taken for the one it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distrust {
    /// It has another key; this is its pin.
    OtherKey([u8; 32]),
    /// It shows the certificate without having its key.
    NoKey,
}

/// Where a handshake leaves its distrust.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict(Arc<Mutex<Option<Distrust>>>);

impl Verdict {
    fn set(&self, distrust: Distrust) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(distrust);
    }

    /// What was wrong; none where nothing was found wrong.
    pub(super) fn distrust(&self) -> Option<Distrust> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct PinVerifier {
    pins: Vec<[u8; 32]>,
    provider: Arc<CryptoProvider>,
    verdict: Verdict,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = webpki::EndEntityCert::try_from(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let key = certificate.subject_public_key_info();
        let pin = digest(&SHA256, key.as_ref());
        if self.pins.iter().any(|known| known.as_slice() == pin.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        self.verdict.set(Distrust::OtherKey(pin.as_ref().try_into().unwrap_or_default()));
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // QUIC has no TLS 1.2.
        Err(Error::InvalidCertificate(CertificateError::BadSignature))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
            .inspect_err(|_| self.verdict.set(Distrust::NoKey))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A TLS client that trusts these pins and nothing else.
pub(super) fn config(pins: &[[u8; 32]], verdict: Verdict) -> Result<ClientConfig, Error> {
    let provider = Arc::new(provider::default_provider());
    let verifier = PinVerifier { pins: pins.to_vec(), provider: Arc::clone(&provider), verdict };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}
