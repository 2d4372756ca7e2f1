//! stdin as lines or as a whole, bounded, in UTF-8.
//!
//! Reading a terminal or a pipe blocks, so it has a thread of its own that ends with the process. Bytes are not changed:
//! a line is what stands before its `\n`, a carriage return included; a last line needs no line break.

use std::io::{self, BufRead, Read as _};

use tokio::sync::mpsc;

use crate::cli::exit::CliError;

/// Lines that are read ahead.
const AHEAD: usize = 64;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, with its number from 1.
    Text(u64, String),
    /// A line that cannot be a message; reading goes on.
    Bad(CliError),
    /// Reading failed and does not go on.
    End(CliError),
}

/// The lines of stdin; the channel ends with it.
#[must_use]
pub fn lines(bytes_max: usize) -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        read_lines(&mut io::stdin().lock(), bytes_max, |line| sender.blocking_send(line).is_ok())
    });
    receiver
}

/// All of stdin.
///
/// # Errors
/// Where it is larger than this, or no UTF-8, or cannot be read.
pub fn whole(bytes_max: usize) -> Result<String, CliError> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() > bytes_max {
        return Err(
            CliError::refused(format!("the message has more than {bytes_max} bytes")).advise("send it in parts")
        );
    }
    String::from_utf8(bytes).map_err(|error| not_utf8("the message", error.utf8_error().valid_up_to()))
}

fn read_lines(input: &mut impl BufRead, bytes_max: usize, mut give: impl FnMut(Line) -> bool) {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    for number in 1_u64.. {
        let mut bytes = Vec::new();
        let read = input.by_ref().take(limit).read_until(b'\n', &mut bytes);
        let line = match read {
            Ok(0) => return,
            Err(error) => {
                give(Line::End(unreadable(&error)));
                return;
            }
            Ok(_) if bytes.last() == Some(&b'\n') => {
                bytes.pop();
                text(number, bytes)
            }
            Ok(_) if bytes.len() > bytes_max => {
                // A line of exactly the most, and its line break, is whole; anything else is too long.
                match skip_line(input) {
                    Ok(()) => Line::Bad(
                        CliError::refused(format!("line {number} has more than {bytes_max} bytes"))
                            .advise("send it in parts"),
                    ),
                    Err(error) => Line::End(unreadable(&error)),
                }
            }
            Ok(_) => text(number, bytes),
        };
        if !give(line) {
            return;
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let available = input.fill_buf()?;
        let end = available.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(available.len(), |end| end.saturating_add(1));
        let over = end.is_some() || available.is_empty();
        input.consume(used);
        if over {
            return Ok(());
        }
    }
}

fn text(number: u64, bytes: Vec<u8>) -> Line {
    match String::from_utf8(bytes) {
        Ok(text) => Line::Text(number, text),
        Err(error) => Line::Bad(not_utf8(&format!("line {number}"), error.utf8_error().valid_up_to())),
    }
}

fn not_utf8(what: &str, valid: usize) -> CliError {
    CliError::failed(format!("{what} is not UTF-8 from its byte {} on", valid.saturating_add(1)))
        .advise("a message is text; other encodings go through iconv")
}

fn unreadable(error: &io::Error) -> CliError {
    CliError::failed(format!("failed to read stdin: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8], max: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        read_lines(&mut bytes, max, |line| {
            lines.push(line);
            true
        });
        lines
    }

    #[test]
    fn lines_are_what_stands_before_their_breaks() {
        let expected = [Line::Text(1, "a\r".into()), Line::Text(2, String::new()), Line::Text(3, "\u{202e}b".into())];
        assert_eq!(read("a\r\n\n\u{202e}b".as_bytes(), 100), expected);
        assert_eq!(read(b"", 100), []);
        assert_eq!(read(b"\n", 100), [Line::Text(1, String::new())]);
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_is_read() {
        let lines = read(b"1234\n12345\n123456\n1\n", 4);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], Line::Text(1, "1234".into()));
        assert!(matches!(&lines[1], Line::Bad(error) if error.exit() == crate::cli::exit::Exit::Refused));
        assert!(matches!(&lines[2], Line::Bad(_)));
        assert_eq!(lines[3], Line::Text(4, "1".into()));
    }

    #[test]
    fn a_line_that_is_no_utf8_is_named_by_its_number() {
        let lines = read(b"ok\nab\xff\nok\n", 100);
        let Line::Bad(error) = &lines[1] else { panic!("{lines:?}") };
        assert_eq!(error.to_string(), "line 2 is not UTF-8 from its byte 3 on");
        assert_eq!(lines[2], Line::Text(3, "ok".into()));
    }
}
