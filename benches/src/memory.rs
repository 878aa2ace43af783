//! Memory of the daemon with loaded sessions: resident memory before and after reads, with as many sessions as the
//! budget holds and with ten times as many.

use crate::reads::Build;

const MESSAGES: usize = 100;
const BODY_BYTES: usize = 200;

/// Measures the first of the builds.
pub(crate) async fn run(binaries: &[String]) {
    let mut build = Build::start(&binaries[0]).await;
    let mebibytes = |build: &Build| build.daemon.memory_kib("VmRSS:").map_or(f64::NAN, |kib| kib as f64 / 1_024.0);
    println!("resident memory, MiB; {MESSAGES} messages of {BODY_BYTES} bytes in each session");
    println!("  {:>6} sessions  {:>7.1}", 0, mebibytes(&build));
    let mut ids = Vec::new();
    for count in [1_000, 10_000] {
        while ids.len() < count {
            ids.push(build.session(MESSAGES, BODY_BYTES).await);
        }
        let appended = mebibytes(&build);
        for id in &ids {
            build.view(id, None).await;
        }
        println!("  {count:>6} sessions  {:>7.1}  before their views were read {appended:>7.1}", mebibytes(&build));
    }
}
