//! The end that was asked for: commits finish, clients are told, the log is sealed.

use std::sync::Arc;

use gaggle::disk::real::RealDisk;
use gaggle::store::{self, Options};
use gaggle::wire::code::Code;

use crate::harness::raw_group;
use crate::process::Home;
use crate::raw::soon;
use crate::window::{Ledger, Window, check};

#[tokio::test]
async fn a_server_that_is_told_to_stop_answers_seals_its_log_tells_its_clients_and_ends_with_zero() {
    let mut home = Home::new();
    home.start().await;
    let ada = home.operator().await;
    let mut reader = ada.call(home.address()).await;
    let group = raw_group(&mut reader, "team", 0).await;
    let listener = ada.listen(home.address()).await;
    let ledger = Ledger::new();
    let (server, mut window) = (home.address(), Window::new(ada.clone(), group, ledger.clone()));
    let load = tokio::spawn(async move {
        let mut raw = window.connect(server).await;
        while window.step(&mut raw).await.is_some() {}
        raw.closed().await
    });
    ledger.reaches(200).await;

    let status = home.terminate().await;
    assert_eq!(status.code(), Some(0), "{}", home.errors());
    assert_eq!(listener.closed().await, Some(Code::ServerStopping));
    assert_eq!(reader.closed().await, Some(Code::ServerStopping));
    assert_eq!(soon("the end of the load", load).await.unwrap(), Some(Code::ServerStopping));

    let opened = store::open(Arc::new(RealDisk), &home.data(), Options::default()).unwrap();
    assert!(opened.recovery.sealed, "the log is not sealed: {:?}", opened.recovery);
    drop(opened);
    home.start().await;
    let mut reader = ada.call(home.address()).await;
    let answered = ledger.snapshot();
    check(group, &reader.browse(group, 0).await, &answered);
    assert!(!answered.is_empty());
}
