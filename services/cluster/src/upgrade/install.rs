//! The sources of a version: packages that are copied to each head, the apt repository of each head, or a command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use appliance::formats::FormatTable;

use super::PACKAGE;
use super::version::{is_plausible, upstream};
use crate::host::{Host, HostError, must, write_file};
use crate::process::Invocation;

/// Packages are copied to this directory of a head.
const DIRECTORY: &str = "/var/cache/bulkhead";
/// Where a package describes its formats.
const FORMATS: &str = "./usr/share/bulkhead/formats.json";
/// Time limit for an install.
const INSTALL_TIME_LIMIT: Duration = Duration::from_secs(900);
/// Time limit to update the lists of a repository.
const UPDATE_TIME_LIMIT: Duration = Duration::from_secs(180);
/// Time limit for a query about a package.
const QUERY_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Longest accepted package, in bytes.
const PACKAGE_BYTES_MAX: u64 = 512 << 20;

/// Installs packages, in part from files. First completes an install that was cut off.
const APT: &str = "set -e; export DEBIAN_FRONTEND=noninteractive; dpkg --configure -a; \
    exec apt-get -q -y --no-remove -o DPkg::Lock::Timeout=60 -o Dpkg::Options::=--force-confdef \
    -o Dpkg::Options::=--force-confold install \"$@\"";

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("read {0}")]
    Read(PathBuf, #[source] std::io::Error),
    /// It is too long.
    #[error("{0} has more than {PACKAGE_BYTES_MAX} bytes")]
    TooLong(PathBuf),
    /// It is no package.
    #[error("{0} is no Debian package")]
    NoPackage(PathBuf, #[source] HostError),
    /// No file is the package of heads.
    #[error("none of the files is the package {PACKAGE}")]
    NoBulkhead,
    /// The version cannot be an argument of a command.
    #[error("{0:?} is no version")]
    NoVersion(String),
    /// The repository of a head does not have it.
    #[error("the repository has no {PACKAGE} {wanted}; it has {found}")]
    NotInRepository {
        /// The version.
        wanted: String,
        /// The versions that it has.
        found: String,
    },
    /// A query failed.
    #[error("query the repository")]
    Repository(#[source] HostError),
}

/// A package file on this host.
#[derive(Clone, Debug)]
pub struct PackageFile {
    name: String,
    version: String,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// The source of a version.
#[derive(Clone, Debug)]
pub enum Source {
    /// These packages.
    Packages(Vec<PackageFile>),
    /// The package of this version in the repository of each head.
    Repository(String),
    /// A command for sh(1), and the version, which is `$1` in it.
    Command(String, String),
}

impl Source {
    /// Reads packages.
    ///
    /// # Errors
    ///
    /// A file is no package, or none is the package of heads.
    pub fn packages(local: &dyn Host, paths: &[PathBuf]) -> Result<Self, SourceError> {
        let files: Result<Vec<PackageFile>, SourceError> =
            paths.iter().map(|path| package(local, path)).collect();
        let files = files?;
        match files.iter().any(|file| file.name == PACKAGE) {
            true => Ok(Self::Packages(files)),
            false => Err(SourceError::NoBulkhead),
        }
    }

    /// The version `to` in the repository of a head, or else the one that apt would install.
    ///
    /// # Errors
    ///
    /// The repository does not have it.
    pub fn repository(machine: &dyn Host, to: Option<&str>) -> Result<Self, SourceError> {
        let update = Invocation::new("apt-get", &["-qq", "update"]).within(UPDATE_TIME_LIMIT);
        must(machine, &update).map_err(SourceError::Repository)?;
        let invocation = Invocation::new("apt-cache", &["madison", PACKAGE]);
        let list = must(machine, &invocation.within(QUERY_TIME_LIMIT));
        let list = list.map_err(SourceError::Repository)?.text();
        let found = versions(&list);
        // The newest is the first.
        let picked = found.iter().find(|version| match to {
            Some(to) => *version == to || upstream(version) == to,
            None => true,
        });
        match picked {
            Some(version) => Ok(Self::Repository(version.clone())),
            None => Err(SourceError::NotInRepository {
                wanted: to.unwrap_or_default().to_owned(),
                found: match found.is_empty() {
                    true => "none".to_owned(),
                    false => found.join(", "),
                },
            }),
        }
    }

    /// A command that installs the version.
    ///
    /// # Errors
    ///
    /// The version is none.
    pub fn command(command: &str, version: &str) -> Result<Self, SourceError> {
        match is_plausible(version) {
            true => Ok(Self::Command(command.to_owned(), version.to_owned())),
            false => Err(SourceError::NoVersion(version.to_owned())),
        }
    }

    /// The version that `bulkhead --version` prints afterwards.
    pub fn program(&self) -> &str {
        match self {
            Self::Command(_, version) => version,
            Self::Packages(_) | Self::Repository(_) => upstream(self.package().unwrap_or_default()),
        }
    }

    /// The version of the package, if it is one.
    pub fn package(&self) -> Option<&str> {
        match self {
            Self::Packages(files) => {
                let file = files.iter().find(|file| file.name == PACKAGE)?;
                Some(&file.version)
            }
            Self::Repository(version) => Some(version),
            Self::Command(..) => None,
        }
    }

    /// The description of the formats in the package, if this host has it.
    pub fn formats(&self, local: &dyn Host) -> Option<FormatTable> {
        let Self::Packages(files) = self else {
            return None;
        };
        let file = files.iter().find(|file| file.name == PACKAGE)?;
        const SCRIPT: &str = "dpkg-deb --fsys-tarfile \"$1\" | tar -xO \"$2\"";
        let path = file.path.to_string_lossy();
        let invocation = Invocation::new("sh", &["-c", SCRIPT, "formats", &path, FORMATS]);
        let output = local.run(&invocation.within(QUERY_TIME_LIMIT)).ok()?;
        FormatTable::parse(&output.stdout)
    }

    /// Installs the version on a head.
    ///
    /// # Errors
    ///
    /// The packages cannot be copied, or the command fails.
    pub fn install(&self, machine: &dyn Host, downgrade: bool) -> Result<(), HostError> {
        let mut words: Vec<String> = Vec::new();
        match self {
            Self::Command(command, version) => {
                words.extend([command.clone(), "install".to_owned(), version.clone()]);
            }
            Self::Packages(_) | Self::Repository(_) => {
                words.extend([APT.to_owned(), "install".to_owned()]);
                words.extend(downgrade.then(|| "--allow-downgrades".to_owned()));
            }
        }
        match self {
            Self::Packages(files) => {
                for file in files {
                    let name = format!("{}_{}.deb", file.name, file.version);
                    let path = Path::new(DIRECTORY).join(name);
                    write_file(machine, &path, &file.bytes, 0o644)?;
                    words.push(path.to_string_lossy().into_owned());
                }
            }
            Self::Repository(version) => words.push(format!("{PACKAGE}={version}")),
            Self::Command(..) => {}
        }
        let mut arguments = vec!["-c"];
        arguments.extend(words.iter().map(String::as_str));
        let invocation = Invocation::new("sh", &arguments).within(INSTALL_TIME_LIMIT);
        must(machine, &invocation).map(drop)
    }
}

fn package(local: &dyn Host, path: &Path) -> Result<PackageFile, SourceError> {
    let failed = |error| SourceError::Read(path.to_owned(), error);
    let path = std::path::absolute(path).map_err(failed)?;
    let failed = |error| SourceError::Read(path.clone(), error);
    if std::fs::metadata(&path).map_err(failed)?.len() > PACKAGE_BYTES_MAX {
        return Err(SourceError::TooLong(path));
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    let field = |name: &str| {
        let shown = path.to_string_lossy();
        let invocation = Invocation::new("dpkg-deb", &["--field", &shown, name]);
        let output = must(local, &invocation.within(QUERY_TIME_LIMIT));
        let output = output.map_err(|error| SourceError::NoPackage(path.clone(), error))?;
        Ok::<_, SourceError>(output.text().trim().to_owned())
    };
    let (name, version) = (field("Package")?, field("Version")?);
    if !is_plausible(&version) || name.contains('/') {
        return Err(SourceError::NoVersion(version));
    }
    Ok(PackageFile {
        name,
        version,
        path,
        bytes,
    })
}

/// The versions in the output of `apt-cache madison`, each once.
fn versions(list: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in list.lines() {
        let version = line.split('|').nth(1).map(str::trim).unwrap_or_default();
        if is_plausible(version) && !found.iter().any(|one| one == version) {
            found.push(version.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Local;

    fn build(directory: &Path, name: &str, version: &str) -> PathBuf {
        let stage = directory.join(format!("{name}-{version}"));
        std::fs::create_dir_all(stage.join("DEBIAN")).expect("a directory");
        let share = stage.join("usr/share/bulkhead");
        std::fs::create_dir_all(&share).expect("a directory");
        std::fs::write(
            share.join("formats.json"),
            r#"{"version":"0.2.0","formats":{}}"#,
        )
        .expect("written");
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@localhost>\nDescription: a\n"
        );
        std::fs::write(stage.join("DEBIAN/control"), control).expect("written");
        let deb = directory.join(format!("{name}.deb"));
        let status = std::process::Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zgzip", "--build"])
            .args([&stage, &deb])
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.expect("dpkg-deb runs").success());
        deb
    }

    #[test]
    fn package_is_read_with_its_formats_and_other_files_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = Local::default();
        let bulkhead = build(directory.path(), "bulkhead", "0.2.0~deb12");
        let library = build(directory.path(), "bulkhead-libzpool", "2.3.2-1");
        let source = Source::packages(&here, &[library.clone(), bulkhead]).expect("packages");
        assert_eq!(source.package(), Some("0.2.0~deb12"));
        assert_eq!(source.program(), "0.2.0");
        let formats = source.formats(&here).expect("described");
        assert_eq!(formats.version, "0.2.0");

        let only = Source::packages(&here, &[library]).expect_err("no heads");
        assert!(matches!(only, SourceError::NoBulkhead), "{only}");
        let text = directory.path().join("text.deb");
        std::fs::write(&text, "no package").expect("written");
        let error = Source::packages(&here, &[text]).expect_err("no package");
        assert!(matches!(error, SourceError::NoPackage(..)), "{error}");
        let missing = Source::packages(&here, &[directory.path().join("none.deb")]);
        assert!(matches!(missing, Err(SourceError::Read(..))));
    }

    #[test]
    fn versions_of_a_repository_are_listed_once() {
        let list = "  bulkhead | 0.2.0~deb12 | http://x bookworm/main amd64 Packages\n  bulkhead | 0.2.0~deb12 | y\n\
                    bulkhead | 0.1.0~deb12 | x\nnoise\n";
        assert_eq!(versions(list), ["0.2.0~deb12", "0.1.0~deb12"]);
    }

    #[test]
    fn command_gets_the_version_and_its_failure_is_reported() {
        let source = Source::command("[ \"$1\" = 0.2.0 ] && { echo full >&2; exit 3; }", "0.2.0");
        let source = source.expect("a version");
        assert_eq!((source.program(), source.package()), ("0.2.0", None));
        let error = source
            .install(&Local::default(), false)
            .expect_err("it fails");
        assert_eq!(error.to_string(), "sh ended with 3: full");
        assert!(Source::command("true", "$(id)").is_err());
    }
}
