//! Files with exported heads: one head a line, and behind them a signature over all, if they are signed.

use super::keys;
use crate::cli::failure::Usage;
use crate::cli::json;
use crate::cli::output::hex;
use crate::pb;
use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The first line of what is signed.
const SIGNED: &str = "longhand heads 1";

/// The heads of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) heads: Vec<pb::Head>,
    pub(super) signature: Option<Signature>,
}

/// The last line of a file with signed heads.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureLine {
    signature: Signature,
}

/// A signature over heads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Signature {
    /// The time at which they were signed, by the clock of the signer, in RFC 3339.
    pub(super) time: String,
    /// The signer's public key: 32 bytes in Base64.
    public_key: String,
    /// 64 bytes in Base64.
    value: String,
}

/// What is signed: a line with the version, a line with the time, and for each head, in the order of the file, a line with
/// the session, the revision and the hash in hex digits, each line with its end.
fn signed_bytes(heads: &[pb::Head], time: &str) -> Vec<u8> {
    let mut text = format!("{SIGNED}\n{time}\n");
    for head in heads {
        text.push_str(&format!("{} {} {}\n", head.session_id, head.revision, hex(&head.hash)));
    }
    text.into_bytes()
}

impl Heads {
    /// Reads the heads of a file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut file = Self { heads: Vec::new(), signature: None };
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let refused = |why: &str| Usage(format!("{}:{number}: not a head: {why}", path.display()));
            if file.signature.is_some() {
                return Err(refused("it is behind the signature").into());
            }
            match serde_json::from_str::<SignatureLine>(line) {
                Ok(last) => file.signature = Some(last.signature),
                Err(_) => {
                    let head = json::decode::<pb::Head>(line).map_err(|error| refused(&error.to_string()))?;
                    file.heads.push(head);
                }
            }
        }
        Ok(file)
    }

    /// The last line for heads, signed with the private key in a file.
    pub(super) fn sign(heads: &[pb::Head], key: &Path, time: String) -> anyhow::Result<String> {
        let (public, value) = keys::sign(key, &signed_bytes(heads, &time))?;
        let signature = Signature { time, public_key: STANDARD.encode(public), value: STANDARD.encode(value) };
        Ok(serde_json::to_string(&SignatureLine { signature })?)
    }

    /// Checks the signature against a public key. Returns the reason why it proves nothing, if it does not.
    pub(super) fn defect(&self, public: &[u8]) -> Option<String> {
        let Some(signature) = &self.signature else { return Some("the heads are not signed".to_owned()) };
        if STANDARD.decode(&signature.public_key).ok().as_deref() != Some(public) {
            return Some(format!("the heads are signed with another key, {}", signature.public_key));
        }
        let value = STANDARD.decode(&signature.value).unwrap_or_default();
        let is_signed = keys::is_signed(public, &signed_bytes(&self.heads, &signature.time), &value);
        (!is_signed).then(|| "the heads are not those that were signed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(session: &str, revision: i64, hash: &[u8]) -> pb::Head {
        pb::Head { session_id: session.into(), revision, hash: hash.to_vec() }
    }

    fn lines(heads: &[pb::Head]) -> Vec<String> {
        heads.iter().map(|head| json::encode(head).expect("JSON")).collect()
    }

    #[test]
    fn exported_heads_are_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("heads");
        let heads = [head("ses_1", 7, &[1, 2]), head("ses_2", 9, &[3])];
        let text = lines(&heads);
        std::fs::write(&file, format!("{}\n\n{}\n", text[0], text[1])).expect("a file");
        assert_eq!(Heads::read(&file).expect("heads"), Heads { heads: heads.to_vec(), signature: None });
        std::fs::write(&file, format!("{}\nnonsense\n", text[0])).expect("a file");
        let error = Heads::read(&file).expect_err("a refusal");
        assert!(error.to_string().contains("heads:2: not a head"), "{error}");
    }

    #[test]
    fn a_signature_is_of_all_heads_in_their_order_with_its_time_and_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let (key, other) = (folder.path().join("key"), folder.path().join("other"));
        let public = keys::make(&key).expect("a key");
        let others = keys::make(&other).expect("a key");
        let heads = [head("ses_1", 7, &[1, 2]), head("ses_2", 9, &[3])];
        let signed = Heads::sign(&heads, &key, "2026-01-05T10:00:00Z".to_owned()).expect("signed");
        let file = folder.path().join("heads");
        let defect = |lines: &[String], public: &[u8]| {
            std::fs::write(&file, lines.join("\n")).expect("a file");
            Heads::read(&file).map(|heads| heads.defect(public))
        };
        let whole = [lines(&heads), vec![signed.clone()]].concat();
        assert_eq!(defect(&whole, &public).expect("heads"), None);
        assert!(defect(&whole, &others).expect("heads").expect("a defect").contains("another key"));
        assert!(defect(&whole[..2], &public).expect("heads").expect("a defect").contains("not signed"));
        let forged = Heads::sign(&heads, &other, "2026-01-05T10:00:00Z".to_owned()).expect("signed");
        let key_of = |line: &str| {
            let line: SignatureLine = serde_json::from_str(line).expect("a signature");
            line.signature.public_key
        };
        let renamed = forged.replace(&key_of(&forged), &key_of(&signed));
        let line = |head: pb::Head| lines(&[head]).remove(0);
        for altered in [
            vec![whole[1].clone(), whole[0].clone(), signed.clone()],
            vec![whole[0].clone(), signed.clone()],
            vec![whole[0].clone(), whole[1].clone(), whole[1].clone(), signed.clone()],
            vec![whole[0].clone(), line(head("ses_2", 10, &[3])), signed.clone()],
            vec![whole[0].clone(), line(head("ses_2", 9, &[4])), signed.clone()],
            vec![whole[0].clone(), line(head("ses_3", 9, &[3])), signed.clone()],
            vec![whole[0].clone(), whole[1].clone(), signed.replace("10:00:00", "10:00:01")],
            vec![whole[0].clone(), whole[1].clone(), renamed],
        ] {
            let found = defect(&altered, &public).expect("heads").expect("a defect");
            assert!(found.contains("not those that were signed"), "{found}: {altered:?}");
        }
        assert!(defect(&[signed.clone(), whole[0].clone()], &public).is_err(), "a head behind the signature");
    }
}
