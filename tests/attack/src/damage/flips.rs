//! Bits of the database that are flipped while the daemon is stopped.

use super::client::{Acknowledged, Client, reason};
use super::{home, start};
use crate::seed;
use anyhow::{Result, bail, ensure};
use rand::Rng as _;
use rand::rngs::StdRng;
use std::fs;
use std::path::Path;
use tonic::Code;

/// Texts of the sizes that are stored uncompressed, compressed, and as blobs.
fn texts(random: &mut StdRng, name: &str) -> Vec<String> {
    let mut noise =
        |bytes: usize| -> String { (0..bytes).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect() };
    [40, 900, 3_000, 120_000].map(|bytes| format!("{name} {}", noise(bytes))).to_vec()
}

/// Fills a store with two sessions and stops its daemon.
async fn fill(program: &Path, store: &Path, random: &mut StdRng) -> Result<Vec<Acknowledged>> {
    let daemon = start(program, store).await?;
    let client = Client::of(&daemon);
    let mut acknowledged = Vec::new();
    for name in ["first", "second"] {
        let session = client.create().await?;
        for (number, text) in texts(random, name).into_iter().enumerate() {
            acknowledged.push(client.append(&session, &text, &format!("{name}-{number}")).await?);
        }
    }
    ensure!(daemon.stop().await?.success(), "it stops cleanly");
    Ok(acknowledged)
}

/// A flipped bit within a text is found by every reader, is reported with its row, and affects nothing else.
pub async fn one_flip(program: &Path, seed: u64) -> Result<()> {
    let mut random = seed::generator(seed, "one-flip");
    let home = home()?;
    let store = home.path().join("store");
    let acknowledged = fill(program, &store, &mut random).await?;
    let path = store.join("longhand.db");
    let whole = fs::read(&path)?;
    // Only the first text of each session is stored uncompressed.
    for damaged in [&acknowledged[0], &acknowledged[4]] {
        let begin = &damaged.text.as_bytes()[..30];
        // A page that was split keeps bytes of rows that it no longer holds.
        let copies: Vec<usize> =
            whole.windows(begin.len()).enumerate().filter_map(|(at, bytes)| (bytes == begin).then_some(at)).collect();
        ensure!(!copies.is_empty(), "the text is not on disk");
        let flipped = random.random_range(0..begin.len());
        let mut bytes = whole.clone();
        for copy in copies {
            bytes[copy + flipped] ^= 1;
        }
        fs::write(&path, &bytes)?;
        let daemon = start(program, &store).await?;
        let client = Client::of(&daemon);
        let refused = match client.text(damaged).await {
            Ok(text) => bail!("served with a flipped bit: {text:?}, sent: {:?}", damaged.text),
            Err(refused) => refused,
        };
        let (code, reason, row) = reason(&refused);
        ensure!((code, reason.as_str()) == (Code::DataLoss, "ROW_CORRUPT"), "{refused:?}");
        ensure!(row.is_some_and(|row| row.starts_with("msg_")), "the row is named: {refused:?}");
        let others: Vec<Acknowledged> = acknowledged.iter().filter(|other| other.id != damaged.id).cloned().collect();
        client.check(&others).await?;
        for session in [&damaged.session, &acknowledged[5].session] {
            client.append(session, "on it goes", "").await?;
        }
        let findings = client.findings().await?;
        ensure!(findings.len() == 1 && findings[0].0 == damaged.session, "{findings:?}");
        daemon.stop().await?;
    }
    Ok(())
}

/// Flips random bits of the database, one at a time: the daemon serves what was sent, or an error.
pub async fn flips(program: &Path, seed: u64, count: u64) -> Result<String> {
    let mut random = seed::generator(seed, "flips");
    let home = home()?;
    let store = home.path().join("store");
    let acknowledged = fill(program, &store, &mut random).await?;
    let path = store.join("longhand.db");
    let whole = fs::read(&path)?;
    let (mut refused_starts, mut reported, mut unnoticed) = (0, 0, 0);
    for _ in 0..count {
        let (at, bit) = (random.random_range(0..whole.len()), random.random_range(0..8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        for beside in ["-wal", "-shm"] {
            drop(fs::remove_file(store.join(format!("longhand.db{beside}"))));
        }
        fs::write(&path, &bytes)?;
        let Ok(daemon) = start(program, &store).await else {
            refused_starts += 1;
            continue;
        };
        let client = Client::of(&daemon);
        let mut errors = 0;
        for acknowledged in &acknowledged {
            match client.text(acknowledged).await {
                Ok(text) if text == acknowledged.text => {}
                Ok(_) => bail!("bit {bit} of byte {at}: an altered text was served"),
                Err(status) => {
                    let (code, ..) = reason(&status);
                    ensure!(matches!(code, Code::DataLoss | Code::NotFound), "bit {bit} of byte {at}: {status:?}");
                    errors += 1;
                }
            }
        }
        if errors > 0 {
            reported += 1
        } else {
            unnoticed += 1
        }
        // A killed daemon does not checkpoint, so that the next flip applies to the same database.
        daemon.kill().await?;
    }
    Ok(format!(
        "{count} bits: {refused_starts} refused at start, {reported} reported by reads, {unnoticed} hurt no read, 0 served"
    ))
}
