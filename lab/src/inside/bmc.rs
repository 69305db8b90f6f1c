//! A head's BMC: stock `ipmi_sim` in a network namespace of its own, which calls the supervisor to
//! query or switch the power.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use appliance::{Appliance, Bmc, Privilege};
use units::HeadName;

use super::{COMMAND, root, step, switch, unit};
use crate::directory::{LabDirectory, Setup, replace};
use crate::fabric::{Port, single_port};

/// Its one interface.
const INTERFACE: &str = "bmc0";
/// Address of the management controller on its bus (IPMI 2.0, section 6.12.4).
const BUS_ADDRESS: &str = "0x20";

/// The power draw of a head that is on, in watts.
const WATTS_ON: u8 = 126;
/// And while only its BMC runs.
const WATTS_OFF: u8 = 4;
/// The temperature of its sensor, in degrees Celsius.
const INLET_CELSIUS: u8 = 23;
/// Interval at which the simulator polls a sensor, in milliseconds.
const READING_POLL_MS: u32 = 2_000;

/// A sensor of the BMC, with a reading of one byte that is its value.
struct Sensor {
    number: u8,
    name: &'static str,
    /// IPMI 2.0, table 43-13.
    entity: u8,
    /// Table 42-3.
    kind: u8,
    /// Table 43-15.
    unit: u8,
}

const INLET: Sensor = Sensor {
    number: 1,
    name: "Inlet Temp",
    entity: 0x37,
    kind: 0x01,
    unit: 1,
};
const POWER: Sensor = Sensor {
    number: 2,
    name: "System Power",
    entity: 0x15,
    kind: 0x0b,
    unit: 6,
};

impl Sensor {
    /// Its full record (IPMI 2.0, section 43.1).
    fn record(&self) -> Vec<u8> {
        let mut body = vec![0x20, 0, self.number, self.entity, 1];
        // Initialization, capabilities, kind, thresholds; no events.
        body.extend([0x7f, 0x68, self.kind, 1, 0, 0, 0, 0, 0, 0]);
        // Unsigned, its unit, linear, and the reading itself is the value.
        body.extend([0, self.unit, 0, 0, 1, 0, 0, 0, 0, 0]);
        // No nominal reading, the widest range, no thresholds, no hysteresis.
        body.extend([0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        // Eight-bit letters.
        body.push(0xc0 | self.name.len() as u8);
        body.extend(self.name.bytes());
        let head = [self.number, 0, 0x51, 0x01, body.len() as u8];
        [&head[..], &body].concat()
    }

    /// Adds it to the simulator, with the reading that a file has. (A reading that is set once is not told by
    /// the simulator of OpenIPMI 2.0.37.)
    fn commands(&self, reading: &Path) -> String {
        let (number, kind, reading) = (self.number, self.kind, reading.display());
        let none = "000000000000000";
        let bytes: Vec<String> = self
            .record()
            .iter()
            .map(|byte| format!("0x{byte:02x}"))
            .collect();
        format!(
            "sensor_add 0x20 0 {number} {kind} 1 poll {READING_POLL_MS} file \"{reading}\"\n\
             sensor_set_event_support 0x20 0 {number} enable scanning per-state {none} {none} {none} {none}\n\
             main_sdr_add 0x20 {}\n",
            bytes.join(" ")
        )
    }
}

/// The hardware of the simulator: one controller with two sensors, and an otherwise empty bus.
fn emulation(celsius: &Path, watts: &Path) -> String {
    let (inlet, power) = (INLET.commands(celsius), POWER.commands(watts));
    format!(
        "mc_setbmc 0x20\n\
         mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n\
         sel_enable 0x20 1000 0x0a\n{inlet}{power}mc_enable 0x20\n"
    )
}

/// The BMC of a head.
pub fn of<'a>(appliance: &'a Appliance, head: &HeadName) -> Option<&'a Bmc> {
    appliance.heads.get(head)?.fencing.as_ref()?.bmc.as_ref()
}

/// Its interface; none where no network holds its address.
pub fn ports(appliance: &Appliance, head: &HeadName) -> Vec<Port> {
    let bmc = of(appliance, head);
    let port = bmc.and_then(|bmc| single_port(appliance, bmc.address, INTERFACE));
    port.into_iter().collect()
}

/// The name of its directory.
pub fn device(head: &HeadName) -> String {
    format!("bmc-{head}")
}

/// The file with the power draw of the head.
const WATTS: &str = "watts";
/// The file with the temperature of the intake air.
const CELSIUS: &str = "celsius";

/// The file in which the supervisor stores the power state that the BMC reports, at every change.
pub fn record_power(folder: &LabDirectory, head: &HeadName, powered: bool) -> io::Result<()> {
    let own = folder.device(&device(head));
    let watts = if powered { WATTS_ON } else { WATTS_OFF };
    replace(
        &own.join("power"),
        format!("power:{}\n", u8::from(powered)).as_bytes(),
    )?;
    replace(&own.join(WATTS), format!("{watts}\n").as_bytes())
}

/// The command that the simulator runs. Queries are served from the state file, because a fence agent queries before
/// and after it switches, and a takeover includes the latency of each query; changes go to the supervisor.
fn chassis_script(folder: &LabDirectory, head: &HeadName) -> String {
    let own = folder.device(&device(head));
    let (own, program, path) = (own.display(), folder.program(), folder.path().display());
    let program = program.display();
    format!(
        "#!/bin/sh\n\
         if [ \"$*\" = 'get power' ] && read -r answer <'{own}/power'; then\n    \
             echo \"$answer\"\n    exit\nfi\n\
         exec '{program}' {COMMAND} chassis '{path}' {head} \"$@\"\n"
    )
}

/// Becomes the simulator.
pub fn run(folder: &LabDirectory, head: &str) -> io::Result<ExitCode> {
    let setup = Setup::load(folder)?;
    let appliance = setup.appliance()?;
    let head: HeadName = head.parse().map_err(io::Error::other)?;
    let bmc = of(&appliance, &head).ok_or_else(|| io::Error::other("this head has no BMC"))?;
    let password = setup.secrets.get(&bmc.password_file);
    let password = password.ok_or_else(|| io::Error::other("the BMC has no password"))?;
    let own = folder.device(&device(&head));
    let (lan, emulation) = (own.join("lan.conf"), own.join("emulation"));
    let chassis = own.join("chassis");
    std::fs::write(&chassis, chassis_script(folder, &head))?;
    std::fs::set_permissions(&chassis, Permissions::from_mode(0o700))?;
    std::fs::write(&lan, lan_conf(&chassis, &head, bmc, password))?;
    let (celsius, watts) = (own.join(CELSIUS), own.join(WATTS));
    std::fs::write(&celsius, format!("{INLET_CELSIUS}\n"))?;
    std::fs::write(&emulation, self::emulation(&celsius, &watts))?;
    let _told_no_more = unit::handshake()?;
    root::build_for_device()?;
    switch::configure(&ports(&appliance, &head))?;
    unit::is_up()?;
    let error = Command::new("ipmi_sim")
        .args(["-n", "-p", "-c"])
        .arg(&lan)
        .arg("-f")
        .arg(&emulation)
        .arg("-s")
        .arg(&own)
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .exec();
    Err(error).map_err(step("run ipmi_sim"))
}

/// Sixteen bytes that differ from head to head: the end of its name.
fn bytes_of(head: &HeadName) -> [u8; 16] {
    let mut bytes = [0x62; 16];
    for (place, byte) in bytes.iter_mut().rev().zip(head.as_str().bytes().rev()) {
        *place = byte;
    }
    bytes
}

fn lan_conf(chassis: &Path, head: &HeadName, bmc: &Bmc, password: &str) -> String {
    let level = match bmc.privilege {
        Privilege::Operator => "operator",
        Privilege::Administrator => "admin",
    };
    let (chassis, address, port, user) = (chassis.display(), bmc.address, bmc.port, &bmc.user);
    let mut text = format!(
        "name \"{}\"\nset_working_mc {BUS_ADDRESS}\n  startlan 1\n",
        device(head)
    );
    text.push_str(&format!(
        "    addr {address} {port}\n    priv_limit admin\n"
    ));
    for role in ["callback", "user", "operator", "admin"] {
        text.push_str(&format!("    allowed_auths_{role} none md2 md5 straight\n"));
    }
    // Without one the simulator refuses sessions of IPMI 2.0.
    let guid: String = bytes_of(head)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    text.push_str(&format!(
        "    guid {guid}\n  endlan\n  \
         chassis_control \"{chassis}\"\n  \
         user 1 false \"\" \"\" user 10 none md2 md5 straight\n  \
         user 2 true \"{user}\" \"{password}\" {level} 10 none md2 md5 straight\n"
    ));
    text
}
