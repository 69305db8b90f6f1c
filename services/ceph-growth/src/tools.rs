//! Runs Ceph's tools, with limits on their time and output, on files of a directory that is removed afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::process::{Invocation, Output, RunError, run};
use control::{Failure, FailureKind};
use growth::crush::CrushMap;
use growth::osdmap::{OsdMap, Pool};
use growth::{GrowthError, GrowthErrorKind};
use tempfile::TempDir;

use crate::files::read;

/// Longest run of a tool: a pool of the largest size on a flat map of 10,000 disks.
const TIME_MAX: Duration = Duration::from_secs(600);

/// Largest map.
const MAP_BYTES_MAX: u64 = 256 << 20;

/// Reports an error of planning.
pub fn failure(error: &GrowthError) -> Failure {
    let kind = match error.kind {
        GrowthErrorKind::Usage => FailureKind::Usage,
        GrowthErrorKind::NotFound => FailureKind::NotFound,
        GrowthErrorKind::Exists => FailureKind::Exists,
        GrowthErrorKind::Unsupported => FailureKind::Unsupported,
        GrowthErrorKind::Output => FailureKind::Failed,
    };
    let failure = Failure::new(kind, error.message.clone());
    match &error.advice {
        Some(advice) => failure.advise(advice.clone()),
        None => failure,
    }
}

/// Runs a tool of a package.
pub fn call(program: &str, package: &str, arguments: &[String]) -> Result<Output, Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(&Invocation::new(program, &words).within(TIME_MAX)).map_err(|error| match error {
        RunError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::not_found(format!("{program} is not installed"))
                .advise(format!("install it with `apt-get install {package}`"))
        }
        error => Failure::from_chain(FailureKind::Failed, &error),
    })
}

/// Maps as files, and the tools that read them.
#[derive(Debug)]
pub struct Tools {
    directory: TempDir,
}

impl Tools {
    /// Creates the directory.
    pub fn new() -> Result<Self, Failure> {
        let directory = tempfile::Builder::new()
            .prefix("bulkhead-growth-")
            .tempdir();
        let directory = directory.map_err(Failure::of("create a directory for maps"))?;
        Ok(Self { directory })
    }

    /// The path of a file there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn osdmaptool(&self, arguments: &[&str]) -> Result<Output, Failure> {
        let mut words = vec![self.word("osdmap")];
        words.extend(arguments.iter().map(|&word| word.to_owned()));
        call("osdmaptool", "ceph-base", &words)
    }

    /// Loads a map. The tools work on a copy: one of their options writes to the map.
    pub fn load(&self, source: &Path) -> Result<(OsdMap, CrushMap), Failure> {
        let bytes = read(source, MAP_BYTES_MAX)?;
        std::fs::write(self.path("osdmap"), bytes).map_err(Failure::of("copy the map"))?;
        let dump = self.osdmaptool(&["--dump", "json"])?;
        if dump.code != 0 {
            let message = format!("{} is no OSD map: {}", source.display(), last_line(&dump));
            let advice = "write one with `ceph osd getmap -o FILE`";
            return Err(Failure::usage(message).advise(advice));
        }
        let map = OsdMap::parse(&dump.stdout).map_err(|error| failure(&error))?;
        let crush = self.word("crush");
        let exported = self.osdmaptool(&["--export-crush", &crush])?;
        expect("osdmaptool --export-crush", &exported)?;
        let dump = call(
            "crushtool",
            "ceph-base",
            &["-i".to_owned(), crush, "--dump".to_owned()],
        )?;
        expect("crushtool --dump", &dump)?;
        let crush = CrushMap::parse(&dump.stdout).map_err(|error| failure(&error))?;
        Ok((map, crush))
    }

    /// Compiles a CRUSH map into a file.
    pub fn compile(&self, map: &CrushMap, name: &str) -> Result<(), Failure> {
        let text = map.to_text().map_err(|error| failure(&error))?;
        let source = format!("{name}.txt");
        std::fs::write(self.path(&source), text).map_err(Failure::of("write a CRUSH map"))?;
        let words = [
            "--compile".to_owned(),
            self.word(&source),
            "--outfn".to_owned(),
            self.word(name),
            // Maps of old clusters have them; a plan does not change them.
            "--enable-unsafe-tunables".to_owned(),
        ];
        let compiled = call("crushtool", "ceph-base", &words)?;
        expect("crushtool --compile", &compiled)
    }

    /// The placement of a pool in the loaded map, as Ceph computes it.
    pub fn placement(&self, pool: &Pool) -> Result<String, Failure> {
        let pool = pool.id.to_string();
        let words = ["--test-map-pgs-dump-all", "--pool", pool.as_str()];
        let dump = self.osdmaptool(&words)?;
        expect("osdmaptool --test-map-pgs-dump-all", &dump)?;
        Ok(dump.text())
    }

    /// The results of CRUSH with a compiled map.
    pub fn mappings(&self, name: &str, arguments: Vec<String>) -> Result<String, Failure> {
        let mut words = vec!["-i".to_owned(), self.word(name)];
        words.extend(arguments);
        let mappings = call("crushtool", "ceph-base", &words)?;
        expect("crushtool --test", &mappings)?;
        Ok(mappings.text())
    }
}

/// Whether the tool succeeded.
pub fn expect(step: &str, output: &Output) -> Result<(), Failure> {
    match output.code {
        0 => Ok(()),
        code => {
            let message = format!("{step} exited with {code}: {}", last_line(output));
            Err(Failure::new(FailureKind::Failed, message))
        }
    }
}

/// The reason of a failure is on the last line.
fn last_line(output: &Output) -> String {
    const LENGTH_MAX: usize = 300;
    let text = String::from_utf8_lossy(match output.stderr.is_empty() {
        true => &output.stdout,
        false => &output.stderr,
    });
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next_back().unwrap_or("no message");
    rendering::harmless(&line.chars().take(LENGTH_MAX).collect::<String>())
}
