//! Installs the published packages of a system, in a separate folder under `target/conformance`.
//!
//! `peers/<system>.packages` lists them, a line each: `npm NAME@VERSION`, `pip NAME==VERSION`, `npm-flags …`,
//! `npm-unpack NAME@VERSION` for the files of one package without its dependencies (in the folder `package`), `runtime
//! node` or `runtime python` for a peer without packages, `npm node@VERSION` for a Node.js other than the machine's;
//! `#` begins a comment. An installation is reused until these lines change.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Maximum number of output lines shown of a failed installer.
const OUTPUT_LINES: usize = 8;

/// Outputs that show that the registry was not reached or failed, and not that it lacks the package.
///
/// The last one is pip's message about a package without any version, which it also prints without a network.
const UNREACHABLE: [&str; 21] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ENETUNREACH",
    "EHOSTUNREACH",
    "ERR_SOCKET_TIMEOUT",
    "FETCH_ERROR",
    "E401",
    "E403",
    "E407",
    "E429",
    "E500",
    "E502",
    "E503",
    "E504",
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "(from versions: none)",
];

/// The files needed to start a peer.
#[derive(Debug)]
pub(crate) struct Installed {
    /// Folder of the packages, which are in its `node_modules` or `venv`.
    pub(crate) folder: PathBuf,
    /// The Node.js or Python that runs the peer.
    pub(crate) runtime: PathBuf,
    /// The peer's own program.
    pub(crate) program: PathBuf,
}

/// Reason for a missing installation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotInstalled {
    /// The registry does not answer, or the machine lacks the runtime: no fault of this repository.
    Unavailable(String),
    /// The list of packages, the peer or a package is wrong.
    Broken(String),
}

/// The contents of `peers/<system>.packages`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Packages {
    npm: Vec<String>,
    npm_flags: Vec<String>,
    /// The package of which only the files are needed.
    unpack: Option<String>,
    /// The version of Node.js; none for the machine's.
    node: Option<String>,
    pip: Vec<String>,
}

/// Installs the packages of the system, unless they are installed. The peer is `peers/<program>.mjs` or `.py`.
pub(crate) fn install(system: &str, program: &str) -> Result<Installed, NotInstalled> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let peers = own.join("peers");
    let list = peers.join(format!("{system}.packages"));
    let broken = |what: &Path, error: std::io::Error| NotInstalled::Broken(format!("{}: {error}", what.display()));
    let written = fs::read_to_string(&list).map_err(|error| broken(&list, error))?;
    let packages = parse(&written).map_err(NotInstalled::Broken)?;
    let programs = ["mjs", "py"].map(|extension| peers.join(format!("{program}.{extension}")));
    let [node_program, python_program] = programs;
    let folder = own.join("../target/conformance").join(system);
    let is_python = python_program.exists();
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == written) {
        return Ok(installed(folder, if is_python { python_program } else { node_program }, is_python, &packages));
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| broken(&folder, error))?;
    }
    fs::create_dir_all(&folder).map_err(|error| broken(&folder, error))?;
    let unpacked: Vec<String> = packages.unpack.iter().cloned().collect();
    let wanted = [&packages.npm[..], &unpacked, &packages.pip[..]].concat();
    if !wanted.is_empty() {
        println!("  installing {}", wanted.join(", "));
    }
    if is_python {
        install_python(&folder, &packages)?;
    } else {
        install_node(&folder, &packages)?;
    }
    // The last step, so that an interrupted installation is repeated.
    fs::write(&stamp, &written).map_err(|error| broken(&stamp, error))?;
    Ok(installed(folder, if is_python { python_program } else { node_program }, is_python, &packages))
}

fn installed(folder: PathBuf, program: PathBuf, is_python: bool, packages: &Packages) -> Installed {
    let runtime = match (is_python, &packages.node) {
        (true, _) => folder.join("venv/bin/python"),
        (false, Some(_)) => folder.join("node_modules").join(node_package()).join("bin/node"),
        (false, None) => PathBuf::from("node"),
    };
    Installed { folder, runtime, program }
}

fn install_node(folder: &Path, packages: &Packages) -> Result<(), NotInstalled> {
    // With its own manifest the folder is a project, and npm searches no parent folder for one.
    let manifest = folder.join("package.json");
    fs::write(&manifest, "{ \"private\": true }\n")
        .map_err(|error| NotInstalled::Broken(format!("{}: {error}", manifest.display())))?;
    execute(Command::new("node").arg("--version"))?;
    if let Some(package) = &packages.unpack {
        execute(Command::new("npm").args(["pack", "--fetch-retries=1", package]).current_dir(folder))?;
        execute(Command::new("sh").args(["-c", "tar -xzf ./*.tgz"]).current_dir(folder))?;
    }
    let node = packages.node.as_ref().map(|version| format!("{}@{version}", node_package()));
    let wanted: Vec<&String> = packages.npm.iter().chain(&node).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]);
    execute(npm.args(&packages.npm_flags).args(wanted).current_dir(folder))
}

fn install_python(folder: &Path, packages: &Packages) -> Result<(), NotInstalled> {
    let venv = folder.join("venv");
    execute(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    if packages.pip.is_empty() {
        return Ok(());
    }
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input"]);
    execute(pip.args(&packages.pip).current_dir(folder))
}

/// The npm package with the Node.js binary for this machine. The package `node` itself only has a script that would
/// download it, and scripts of packages are not run.
fn node_package() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let prefix = if (system, architecture) == ("darwin", "arm64") { "node-bin" } else { "node" };
    format!("{prefix}-{system}-{architecture}")
}

fn execute(command: &mut Command) -> Result<(), NotInstalled> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(NotInstalled::Unavailable(format!("this machine has no {name}")));
        }
        Err(error) => return Err(NotInstalled::Broken(format!("{name}: {error}"))),
    };
    if output.status.success() {
        return Ok(());
    }
    let words = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let lines: Vec<&str> = words.lines().collect();
    let last = lines[lines.len().saturating_sub(OUTPUT_LINES)..].join("\n    ");
    Err(if UNREACHABLE.iter().any(|symptom| words.contains(symptom)) {
        NotInstalled::Unavailable(format!("the registry does not answer\n    {last}"))
    } else if words.contains("ensurepip is not available") {
        NotInstalled::Unavailable(format!("this machine's Python makes no environments\n    {last}"))
    } else {
        NotInstalled::Broken(format!("{name} failed\n    {last}"))
    })
}

fn parse(written: &str) -> Result<Packages, String> {
    let mut packages = Packages::default();
    for line in written.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(' ').map(|(kind, rest)| (kind, rest.trim())) {
            Some(("npm", package)) => match package.strip_prefix("node@") {
                Some(version) => packages.node = Some(version.to_owned()),
                None => packages.npm.push(package.to_owned()),
            },
            Some(("npm-unpack", package)) => packages.unpack = Some(package.to_owned()),
            Some(("npm-flags", flags)) => packages.npm_flags.extend(flags.split_whitespace().map(str::to_owned)),
            Some(("pip", package)) => packages.pip.push(package.to_owned()),
            Some(("runtime", "node" | "python")) => {}
            _ => return Err(format!("the list of packages has a line that says nothing: {line}")),
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_packages_are_read() {
        let packages = parse(
            "# why\nnpm node@22.1.0\nnpm a@npm:@s/b@1.2.3\nnpm-flags --omit=optional -x\n\npip p==1\nnpm-unpack c@2\n",
        );
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let expected = Packages {
            npm: strings(&["a@npm:@s/b@1.2.3"]),
            npm_flags: strings(&["--omit=optional", "-x"]),
            unpack: Some("c@2".to_owned()),
            node: Some("22.1.0".to_owned()),
            pip: strings(&["p==1"]),
        };
        assert_eq!(packages, Ok(expected));
        for line in ["npm", "pypi x==1", "runtime ruby"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn missing_packages_differ_from_packages_that_were_not_requested() {
        let shell = |words: &str| execute(Command::new("sh").args(["-c", &format!("echo '{words}' >&2; exit 1")]));
        assert!(matches!(shell("npm error code ENOTFOUND"), Err(NotInstalled::Unavailable(_))));
        assert!(matches!(shell("npm error code ETARGET"), Err(NotInstalled::Broken(_))));
        assert!(matches!(
            shell("ERROR: No version satisfies x==1 (from versions: none)"),
            Err(NotInstalled::Unavailable(_))
        ));
        assert!(matches!(
            shell("ERROR: No version satisfies x==1 (from versions: 2, 3)"),
            Err(NotInstalled::Broken(_))
        ));
        assert!(matches!(execute(&mut Command::new("no-such-runtime")), Err(NotInstalled::Unavailable(_))));
        assert_eq!(execute(&mut Command::new("true")), Ok(()));
    }
}
