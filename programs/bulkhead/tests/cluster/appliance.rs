//! `bulkhead appliance` from outside: the examples, broken files, and, where this host permits it,
//! a plan that is applied to a head in a mount namespace of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::nbd::Nbd;
use crate::common::{TestHost, program};

const EXIT_WARNINGS: i32 = 11;
const EXIT_ERRORS: i32 = 12;
const EXIT_DIFFERENCE: i32 = 13;
const EXIT_OBSTACLE: i32 = 14;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let entries = std::fs::read_dir(folder).expect("the examples");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "toml"));
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    files
}

fn pair() -> String {
    let path = examples()
        .into_iter()
        .find(|path| path.ends_with("pair.toml"));
    std::fs::read_to_string(path.expect("pair.toml")).expect("readable")
}

/// The line of `text` that contains `part`, from 1.
fn line_of(text: &str, part: &str) -> usize {
    let at = text.lines().position(|line| line.contains(part));
    at.expect(part) + 1
}

#[test]
fn every_example_is_valid_and_lists_unqueried_heads() {
    let machine = TestHost::with_disks(&[]);
    for path in examples() {
        let words = format!("appliance check {}", path.display());
        let is_warned = path.ends_with("legs-two-heads.toml");
        let said = machine.run(&words);
        assert_eq!(said.code == 0, !is_warned, "{}", said.out);
        assert!(said.out.contains("left: not queried: "), "{}", said.out);
        let found = machine.run(&format!("{words} --json")).json();
        let worst = if is_warned { "warning" } else { "hint" };
        assert_eq!(found["worst"], worst, "{found:#}");
        assert_eq!(found["heads"]["left"]["asked"], false);
        for finding in found["findings"].as_array().expect("a list") {
            let code = finding["code"].as_str();
            let is_known = is_warned && code == Some("leg-witness-missing");
            assert!(is_known || code == Some("not-asked"), "{finding}");
        }
    }
}

#[test]
fn invalid_files_are_reported_with_code_line_reason_and_fix() {
    let machine = TestHost::with_disks(&[]);
    let file = machine.path("broken.toml");
    let text = pair();
    let words = format!("appliance check {}", file.display());
    for (from, to, code, name) in [
        (
            "delay_s = 1",
            "delay_s = 0",
            EXIT_ERRORS,
            "fence-delay-equal",
        ),
        (
            "10.77.2.100",
            "10.99.2.100",
            EXIT_ERRORS,
            "address-outside-network",
        ),
        ("10.77.1.100", "10.77.1.11", EXIT_ERRORS, "address-twice"),
        ("number = 2", "number = 1", EXIT_ERRORS, "head-number"),
        (
            "home = \"left\"",
            "home = \"middle\"",
            EXIT_ERRORS,
            "unknown-name",
        ),
        (
            "arc = \"32G\"",
            "arc = \"63G\"",
            EXIT_ERRORS,
            "arc-too-large",
        ),
        ("home = \"left\"\n", "", EXIT_WARNINGS, "pool-without-home"),
        (
            "rule = \"two-node\"",
            "rule = two-node",
            EXIT_ERRORS,
            "syntax",
        ),
        ("delay_s = 1", "delay = 1", EXIT_ERRORS, "syntax"),
    ] {
        assert!(text.contains(from), "{from}");
        let broken = text.replace(from, to);
        std::fs::write(&file, &broken).expect("written");
        let said = machine.run(&words);
        assert_eq!(said.code, code, "{name}: {}", said.out);
        let shown = said
            .out
            .lines()
            .find(|line| line.contains(&format!("[{name}]")));
        let shown = shown.unwrap_or_else(|| panic!("{name}: {}", said.out));
        assert!(shown.contains(" line "), "{shown}");
        for part in ["  why:  ", "  mend: "] {
            assert!(said.out.contains(part), "{}", said.out);
        }
        let found = machine.run(&format!("{words} --json"));
        assert_eq!(found.code, code);
        let found = found.json();
        let findings = found["findings"].as_array().expect("a list").clone();
        let finding = findings.iter().find(|one| one["code"] == name);
        let finding = finding.unwrap_or_else(|| panic!("{name}: {found:#}"));
        assert!(
            finding["mend"]
                .as_str()
                .is_some_and(|mend| !mend.is_empty())
        );
        // Where the mistake is not in the changed line, the finding points to the head concerned.
        let at = match name {
            "arc-too-large" => "[heads.left]",
            "pool-without-home" => "[pools.tank]",
            "fence-delay-equal" | "head-number" => "",
            _ => from,
        };
        if !at.is_empty() {
            let line = finding["where"]["line"].as_u64().expect("a line");
            assert_eq!(line as usize, line_of(&text, at), "{name}: {finding}");
        }
    }
}

#[test]
fn files_that_cannot_be_read_have_the_common_exit_codes() {
    let machine = TestHost::with_disks(&[]);
    machine.refused("appliance check nowhere.toml", 3, "nowhere.toml");
    std::fs::write(machine.path("binary"), [0xff; 64]).expect("written");
    machine.refused("appliance check binary", 2, "UTF-8");
    std::fs::write(machine.path("long"), vec![b'#'; 3 << 20]).expect("written");
    assert_eq!(machine.run("appliance check long").code, EXIT_ERRORS);
    std::fs::write(machine.path("pair.toml"), pair()).expect("written");
    machine.refused(
        "appliance check pair.toml --reach middle=run:env",
        2,
        "middle",
    );
    machine.refused("appliance plan pair.toml", 7, "--ssh");
    machine.refused("appliance apply pair.toml", 7, "--ssh");
}

#[test]
fn reachable_head_is_queried_and_missing_parts_reported() {
    let machine = TestHost::with_disks(&[]);
    std::fs::write(machine.path("pair.toml"), pair()).expect("written");
    let words = "appliance check pair.toml --reach left=run:env --reach right=run:false";
    let said = machine.run(&format!("{words} --json"));
    assert_eq!(said.code, EXIT_ERRORS, "{}", said.out);
    let found = said.json();
    assert_eq!(found["heads"]["left"]["asked"], true);
    let unknown = &found["heads"]["left"]["unknown"];
    assert!(unknown.to_string().contains("OpenZFS"), "{unknown}");
    let right = &found["heads"]["right"];
    assert_eq!(right["asked"], false);
    assert!(
        right["why"]
            .as_str()
            .is_some_and(|why| why.contains("ended with 1"))
    );
    let codes = found["findings"].to_string();
    for code in [
        "disk-missing",
        "secret-missing",
        "interface-missing",
        "not-asked",
    ] {
        assert!(codes.contains(code), "{code}: {codes}");
    }
}

/// Facts that no script can gather: the features of a head's OpenZFS, those that the pools on its
/// disks need, and the stalls of the head.
#[test]
fn head_with_binary_reports_features_and_stalls() {
    let machine = TestHost::with_disks(&["a.img"]);
    machine.ok("pool create tank a.img");
    let disk = machine.path("a.img");
    let file = machine.path("single.toml");
    std::fs::write(&file, single_head("64M", &disk)).expect("written");
    let program = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
    let folder = program.parent().expect("a folder").display();
    let words = format!(
        "appliance check single.toml --json --reach left=run:env|PATH={folder}:/usr/bin:/bin:/usr/sbin:/sbin"
    );
    let words: Vec<String> = words
        .split(' ')
        .map(|word| word.replace('|', " "))
        .collect();
    let output = machine.command("").args(&words).output().expect("runs");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let unknown = found["heads"]["left"]["unknown"].to_string();
    assert!(found["heads"]["left"]["asked"] == true, "{found:#}");
    for part in ["OpenZFS", "stands still"] {
        assert!(!unknown.contains(part), "{unknown}");
    }
    assert!(
        !found["findings"].to_string().contains("feature"),
        "{found:#}"
    );

    let mut facts = Command::new(program);
    facts
        .args(["appliance", "facts"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut facts = facts.spawn().expect("runs");
    let mut question = facts.stdin.take().expect("piped");
    writeln!(question, "{}\n/does/not/exist", disk.display()).expect("asked");
    drop(question);
    let told = facts.wait_with_output().expect("ends");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    for line in [
        "zfs_feature\tzstd_compress\n",
        "feature_in_use\ttank\thole_birth\n",
    ] {
        assert!(told.contains(line), "{told}");
    }
}

/// The role of each disk in a mirror and a raidz, by its label alone.
#[test]
fn facts_contain_the_mirror_and_the_raidz_of_each_disk() {
    let names = ["a.img", "b.img", "c.img", "d.img", "e.img"];
    let machine = TestHost::with_disks(&names);
    machine.ok("pool create pair mirror a.img b.img");
    machine.ok("pool create trio raidz c.img d.img e.img");
    let mut facts = machine.command("appliance facts");
    facts.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut facts = facts.spawn().expect("runs");
    let mut question = facts.stdin.take().expect("piped");
    for name in names {
        writeln!(question, "{}", machine.path(name).display()).expect("written");
    }
    drop(question);
    let printed = facts.wait_with_output().expect("ends");
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let placements = printed
        .lines()
        .filter_map(|line| line.strip_prefix("placement\t"));
    let groups = placements.map(|json| {
        let (_, placement): (PathBuf, appliance::placement::DiskPlacement) =
            serde_json::from_str(json).expect("a placement");
        assert_eq!((placement.shelf, placement.paths), (None, None), "a file");
        placement.group.expect("a group")
    });
    let groups: Vec<_> = groups.collect();
    let roles: Vec<_> = groups
        .iter()
        .map(|one| (one.pool.as_str(), one.member, one.members, one.needed))
        .collect();
    let expected = [
        ("pair", 0, 2, 1),
        ("pair", 1, 2, 1),
        ("trio", 0, 3, 2),
        ("trio", 1, 3, 2),
        ("trio", 2, 3, 2),
    ];
    assert_eq!(roles, expected, "{printed}");
    assert_eq!(groups[0].id, groups[1].id);
    assert_ne!(groups[0].id, groups[2].id);
}

#[test]
fn schema_manual_and_completions_contain_the_commands() {
    let machine = TestHost::with_disks(&[]);
    let schema = machine.ok("appliance schema").json();
    assert_eq!(schema["title"], "appliance.toml");
    let pages = machine.path("man");
    std::fs::create_dir(&pages).expect("a folder");
    machine.ok("man man");
    let completion = machine.ok("completion bash").out;
    for (noun, verb) in [
        ("appliance", "check"),
        ("appliance", "plan"),
        ("appliance", "apply"),
        ("appliance", "schema"),
        ("agent", "pool"),
    ] {
        let page = pages.join(format!("bulkhead-{noun}-{verb}.1"));
        assert!(page.exists(), "{}", page.display());
        let function = format!("bulkhead__subcmd__{noun}__subcmd__{verb}");
        assert!(completion.contains(&function), "{function}");
    }
    let page = std::fs::read_to_string(pages.join("bulkhead-appliance-check.1"));
    assert!(
        page.expect("a page").contains("11"),
        "exit codes are in the manual"
    );
}

/// A head with its own name, network and /etc, with stubs for the cluster's configuration.
struct Namespaces {
    holder: Child,
    prefix: String,
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// All writes go to a tmpfs that disappears with the process.
const PREPARE: &str = r#"
set -e
mount --make-rprivate /
hostname left
ip link set lo mtu 1500 up
mount -t sysfs none /sys
mkdir "$1/fs"
mount -t tmpfs none "$1/fs"
cp -a /etc "$1/fs/etc"
rm -rf "$1/fs/etc/bulkhead" "$1/fs/etc/corosync"
echo 0123456789abcdef0123456789abcdef >"$1/fs/etc/machine-id"
mkdir "$1/fs/etc/corosync" "$1/fs/ocf" "$1/fs/state"
mount --bind "$1/fs/etc" /etc
mount --bind "$1/fs/ocf" /usr/lib/ocf/resource.d
mkdir -p /var/lib/bulkhead
mount --bind "$1/fs/state" /var/lib/bulkhead
cibadmin --empty >"$1/cib.xml"
ip address add 10.77.1.11/24 dev lo
echo ready
exec sleep 1000
"#;

/// Replaces a command that would need a running Corosync.
fn stand_in(folder: &Path, name: &str, script: &str) {
    program(&folder.join(name), script);
}

impl Namespaces {
    /// `None` on a host without namespaces or without Pacemaker.
    fn enter(machine: &TestHost) -> Option<Self> {
        let folder = machine.directory.path();
        let bin = machine.path("bin");
        std::fs::create_dir(&bin).expect("a folder");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bulkhead"), bin.join("bulkhead"))
            .expect("a link");
        stand_in(
            &bin,
            "corosync-cmapctl",
            "echo 'totem.cluster_name (str) = test'",
        );
        stand_in(&bin, "corosync-cfgtool", "exit 0");
        stand_in(&bin, "systemctl", "exit 1");
        let mut holder = Command::new("unshare")
            .args(["--mount", "--uts", "--net", "sh", "-c", PREPARE, "prepare"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let out = holder.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("readable");
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
        let cib = folder.join("cib.xml");
        let prefix = format!(
            "nsenter -t {} -m -u -n env PATH={path} CIB_file={}",
            holder.id(),
            cib.display()
        );
        let namespaces = Self { holder, prefix };
        (line == "ready\n").then_some(namespaces)
    }
}

fn single_head(arc: &str, disk: &Path) -> String {
    format!(
        "format = 1\nname = \"test\"\n\
         [networks.a]\nsubnets = [\"10.77.1.0/24\"]\nheartbeat = 0\n\
         [heads.left]\nnumber = 1\nmemory = \"64G\"\n\
         links = {{ a = {{ interface = \"lo\", addresses = [\"10.77.1.11\"] }} }}\n\
         [pools.tank]\nhome = \"left\"\narc = \"{arc}\"\ndisks = [{disk:?}]\n\
         addresses = [{{ network = \"a\", address = \"10.77.1.100\" }}]\n"
    )
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn a_plan_is_applied_once_and_the_next_one_is_empty() {
    let machine = TestHost::with_disks(&["a"]);
    let Some(left) = Namespaces::enter(&machine) else {
        eprintln!("skipped: no mount namespaces (root), or no cibadmin or resource-agents");
        return;
    };
    let own_etc = || std::fs::metadata("/etc/bulkhead/appliance.toml").is_ok();
    let had_file = own_etc();
    let file = machine.path("single.toml");
    std::fs::write(&file, single_head("1G", &machine.path("a"))).expect("written");
    let run = |verb: &str, more: &[&str]| {
        let output = machine
            .command(&format!("appliance {verb} --without-systemd"))
            .arg(&file)
            .arg(format!("--reach=left=run:{}", left.prefix))
            .args(more)
            .output()
            .expect("it runs");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or(-1), out, err)
    };
    let (code, out, err) = run("plan", &[]);
    assert_eq!(code, EXIT_DIFFERENCE, "{out}{err}");
    for part in [
        "/etc/corosync/corosync.conf",
        "not shown",
        "configure Pacemaker",
        "pool-tank",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (code, again, _) = run("plan", &[]);
    assert_eq!(
        (code, &again),
        (EXIT_DIFFERENCE, &out),
        "a plan changes nothing"
    );
    let (code, done, err) = run("apply", &[]);
    assert_eq!(code, 0, "{done}{err}");
    let (code, out, err) = run("plan", &[]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("everything is as the file says"), "{out}");
    let (code, out, _) = run("apply", &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &document["changed"]), (0, &false.into()), "{out}");

    std::fs::write(&file, single_head("2G", &machine.path("a"))).expect("written");
    let (code, out, _) = run("plan", &[]);
    assert_eq!(code, EXIT_DIFFERENCE);
    assert!(out.contains("+arc = \"2G\""), "{out}");
    for verb in ["apply", "plan"] {
        let (code, out, err) = run(verb, &[]);
        assert_eq!(code, 0, "{verb}: {out}{err}");
    }

    let other = "echo 'totem.cluster_name (str) = debian'";
    stand_in(&machine.path("bin"), "corosync-cmapctl", other);
    let (code, out, _) = run("apply", &[]);
    assert_eq!(code, EXIT_OBSTACLE, "{out}");
    assert!(out.contains("in the way"), "{out}");
    std::fs::write(&file, single_head("63G", &machine.path("a"))).expect("written");
    let (code, out, _) = run("apply", &[]);
    assert_eq!(code, EXIT_ERRORS, "{out}");
    assert_eq!(
        own_etc(),
        had_file,
        "this machine's own files are untouched"
    );
}

/// Clients at a removed address must disconnect first, unless the operator overrides that.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn apply_updates_listeners_of_running_server() {
    let machine = TestHost::with_exported_volume();
    let Some(left) = Namespaces::enter(&machine) else {
        eprintln!("skipped: no mount namespaces (root), or no cibadmin or resource-agents");
        return;
    };
    let file = machine.path("single.toml");
    std::fs::write(&file, single_head("1G", &machine.path("a"))).expect("written");
    let run = |words: &str| {
        let mut command = machine.command(&format!("appliance {words} --without-systemd"));
        command.arg(&file);
        command.arg(format!("--reach=left=run:{}", left.prefix));
        let output = command.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let (code, said) = run("plan");
    assert_eq!(code, Some(EXIT_DIFFERENCE), "{said}");
    assert!(said.contains("+--iscsi 10.77.1.100:3260,1"), "{said}");
    assert!(said.contains("---nbd unix:"), "{said}");
    let (code, said) = run("apply");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("in use by NBD client") && said.contains("--in-use"),
        "{said}"
    );
    client.write(0, &[3; 512]).expect("still served");
    assert!(
        run("plan").1.contains("appliance.toml (new"),
        "nothing was changed"
    );
    let (code, said) = run("apply --in-use");
    assert_eq!(code, Some(0), "{said}");
    assert!(client.read(0, 512).is_err(), "its way is closed");
    let list = machine.ok("portal list tank").out;
    for address in ["10.77.1.100:3260", "10.77.1.100:10809"] {
        assert!(list.contains(address), "{list}");
    }
    assert!(!list.contains("127.0.0.1"), "{list}");
    let (code, said) = run("plan");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}
