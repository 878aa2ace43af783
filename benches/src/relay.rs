//! A network with a delay: a socket that passes on to another one what comes, later.

use clap::Args;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Maximum number of bytes that are passed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A network with a delay.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The socket to listen on.
    #[arg(long)]
    listen: PathBuf,
    /// The socket behind it.
    #[arg(long)]
    to: PathBuf,
    /// Microseconds by which what comes is later at its destination, in each direction.
    #[arg(long)]
    delay_us: u64,
}

/// Passes on what comes until the process is ended.
pub(crate) fn run(options: &Options) {
    let delay = Duration::from_micros(options.delay_us);
    for from in UnixListener::bind(&options.listen).expect("a socket").incoming() {
        let (from, to) = (from.expect("a connection"), UnixStream::connect(&options.to).expect("a connection"));
        let copy = |stream: &UnixStream| stream.try_clone().expect("a connection");
        pass(copy(&from), copy(&to), delay);
        pass(to, from, delay);
    }
}

/// Passes on what goes one way. Threads, because the runtime's timers have a resolution of a millisecond.
#[expect(clippy::disallowed_methods, reason = "they are no threads of the runtime")]
fn pass(mut from: UnixStream, mut to: UnixStream, delay: Duration) {
    let (sender, pieces) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if sender.send((Instant::now(), piece[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (came, piece) in pieces {
            std::thread::sleep((came + delay).saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        // Both ends know that it is over; they may have closed already.
        drop(to.shutdown(Shutdown::Both));
    });
}
