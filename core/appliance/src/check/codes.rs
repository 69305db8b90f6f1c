//! Every kind of finding, with its severity and the reason for it.

use schemars::JsonSchema;
use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "FindingSeverity")]
pub enum Severity {
    /// Worth knowing.
    Hint,
    /// It works, but degrades badly when a component fails.
    Warning,
    /// It does not work, or it endangers data.
    Error,
}

macro_rules! codes {
    ($($code:ident $name:literal $severity:ident $why:literal)*) => {
        /// A kind of mistake. Its name is stable: scripts may rely on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $why] $code,)*
        }

        impl Code {
            /// All of them, in the order of the reference.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// The name that is printed.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            /// Its severity.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$code => Severity::$severity,)* }
            }

            /// Returns the consequence of the mistake.
            pub const fn why(self) -> &'static str {
                match self { $(Self::$code => $why,)* }
            }
        }
    };
}

codes! {
    Syntax "syntax" Error
        "A file that is half understood would describe another appliance than the one meant."
    Format "format" Error
        "Another version of the format may give the same fields another meaning."
    ApplianceName "appliance-name" Error
        "Corosync accepts only messages of its own cluster and distinguishes clusters by this name."
    NoHead "no-head" Error
        "Nothing can be served without a head."
    UnknownName "unknown-name" Error
        "A name that is defined nowhere is a typing mistake, and the object that it should refer to is left out."
    HeadNumber "head-number" Error
        "Corosync and Pacemaker know heads by number; 0 is none, and two heads with one number cannot both join."

    NoFencing "no-fencing" Error
        "A head that cannot be powered off may still write; its pools are never taken over, or the data is destroyed."
    FencingOnHead "fencing-on-head" Error
        "A fence device at the head's own address is gone exactly when it is needed."
    FencingSharesPower "fencing-shares-power" Warning
        "A BMC is powered by the head's own power supplies. When they fail, no device can confirm that the head is off, and no takeover starts."
    FencingSharesHost "fencing-shares-host" Warning
        "When a hypervisor fails, its virtual machines fail with it and it cannot confirm that they are off: no takeover starts."
    HeadsOnOneHost "heads-on-one-host" Warning
        "Heads on one hypervisor fail together; the appliance survives the loss of a head, not of the host under both."
    FencingSharesNetwork "fencing-shares-network" Warning
        "If the one network of heartbeats fails, no head sees another and none can be fenced: pools stall."
    FencingUnreachable "fencing-unreachable" Error
        "A fence device that the other heads cannot reach never confirms anything."
    FenceDeviceTwice "fence-device-twice" Error
        "A device that belongs to two heads powers the wrong one off."
    PduTwice "pdu-twice" Error
        "Two names for one unit look like two feeds: when it fails, all power that was meant to be independent of it is gone."
    FenceAgent "fence-agent" Error
        "Pacemaker starts the agent by this name; there is no agent of another form."
    OutletName "outlet-name" Error
        "Pacemaker splits its lists of heads and outlets at these characters, and would switch a wrong outlet."
    OneOutlet "one-outlet" Warning
        "A head with two power supplies stays on when one outlet is switched off; with one supply a lost feed stops it."
    FenceDelayEqual "fence-delay-equal" Error
        "Two healthy heads that do not see each other power each other off at the same time, and neither survives."
    FenceDelayNeedless "fence-delay-needless" Hint
        "The witness, or the majority, already decides which head survives; the delay only prolongs takeovers."

    OneLink "one-link" Warning
        "With one link, one pulled cable is taken for a failed head, and a healthy one is powered off."
    NoLink "no-link" Error
        "Heads that exchange no heartbeats are no appliance."
    HeartbeatNumber "heartbeat-number" Error
        "Corosync identifies links by number, 0 to 7, each once."
    HeadOffNetwork "head-off-network" Error
        "A head without an interface in a network cannot receive heartbeats there and cannot serve its addresses."
    InterfaceName "interface-name" Error
        "Linux calls no interface so; nothing can be brought up on it."
    InterfaceShared "interface-shared" Warning
        "Networks on one interface fail together: one pulled cable cuts all paths that should be independent."
    HeadAddressMissing "head-address-missing" Error
        "Where heads call their interfaces differently, a moving address finds its interface by the head's own address in the same range."
    LinkFamily "link-family" Error
        "Both sides of a link must use the same address family."

    QuorumMissing "quorum-missing" Error
        "Without a rule, no head may act alone: after the loss of one head of two the other stops all pools."
    QuorumUnfit "quorum-unfit" Error
        "A rule for another number of heads lets no head act, or two at once."
    WitnessSharesFate "witness-shares-fate" Error
        "A witness that fails with a head is missing when its vote is needed."
    WitnessBlind "witness-blind" Hint
        "A witness that reaches both heads cannot tell which of them has lost its clients, unless they try to reach other addresses."

    AddressOutsideNetwork "address-outside-network" Error
        "An address in a network that it does not belong to is unreachable."
    AddressTwice "address-twice" Error
        "Two hosts with one address respond in turn, and sessions break at random."
    AddressReserved "address-reserved" Error
        "The first and the last address of a network are not for hosts."
    NetworksOverlap "networks-overlap" Error
        "The kernel sends packets for both networks through one interface; paths that should be independent are not."
    OnePortal "one-portal" Warning
        "Clients with one path stall when one switch or cable fails."
    NoAddress "no-address" Warning
        "Clients reach a pool at addresses that move with it; without one they lose it at the first takeover."

    PoolWithoutHome "pool-without-home" Warning
        "Without a home the cluster places the pool by chance, and both pools of two may start on one head."
    PoolOnOneHead "pool-on-one-head" Warning
        "A pool that only one head may serve is not taken over by anybody."
    NoDisk "no-disk" Error
        "A pool is looked for on its listed disks only."
    DiskTwice "disk-twice" Error
        "One disk in two pools belongs to whichever writes last."
    DiskNameUnstable "disk-name-unstable" Warning
        "Names like sda are given in the order of discovery and differ between boots and heads."
    PathRelative "path-relative" Error
        "A path that does not begin with / is a different file for each process that reads it."
    SectorSize "sector-size" Error
        "ZFS writes in powers of two, from 512 bytes."

    LegsAndDisks "legs-and-disks" Error
        "Disks that all heads reach are kept from other heads by claims, disks of one head by its lender; a pool that mixes them is kept by neither."
    LegHeads "leg-heads" Error
        "The record of current disks needs three members: two heads, or two heads and a witness, or three heads. There is no rule for other numbers."
    LegWitnessMissing "leg-witness-missing" Warning
        "Two heads alone cannot detect whether a silent peer is still running: a head that starts alone after a power cut refuses its pools until an administrator decides, and a link that fails stops writes until a fence has succeeded."
    LegExtras "leg-extras" Error
        "A cache disk of one head is not there when another head serves the pool."
    LegGroupShape "leg-group-shape" Error
        "Other numbers of disks are no such device, or take a network round for each further copy."
    LegsOnOneHead "legs-on-one-head" Error
        "Two disks fail with their head, and the group survives the loss of one: no takeover is possible."
    LegNumber "leg-number" Error
        "Heads and witness identify members of the record by number; with a number that is used twice an empty disk passes for a current one."
    HeadWithoutLeg "head-without-leg" Warning
        "A head without a disk of a group reads all data over the network, and has no copy when it is cut off."
    NoLegNetwork "no-leg-network" Error
        "Without a network between the heads no write reaches the second copy."
    OneLegNetwork "one-leg-network" Warning
        "With one pulled cable all disks of the other head become stale; until they are resynchronized the pool has no redundancy, and with two heads writes stall until a fence."
    LegNetworkWithClients "leg-network-with-clients" Hint
        "Every write of a client crosses the network of the legs once more: on one network both share its bandwidth, and a client that floods it delays all writes."
    LegWitnessUnreached "leg-witness-unreached" Warning
        "A head that does not reach the witness has one member fewer: when the other head is lost, too, no head can open the pools."
    LegMtuDiffers "leg-mtu-differs" Hint
        "When the network of the large packets fails, every write is sent in small ones, at more cost."
    LegPort "leg-port" Error
        "Two services cannot listen on one port: no disk would be lent."
    LegFingerprint "leg-fingerprint" Error
        "Heads accept only peers with a configured certificate: no disk is lent, and no record stored."
    LegFingerprintTwice "leg-fingerprint-twice" Error
        "Two members with one key count as one: a record that is stored twice by one member is not redundant."
    LegFingerprintDiffers "leg-fingerprint-differs" Error
        "The other heads refuse this one: its disks turn stale, and it cannot take a pool over."
    LegFingerprintExample "leg-fingerprint-example" Warning
        "No key has the fingerprint of an example: the other members refuse this one."
    LegServerSilent "leg-server-silent" Warning
        "Without its leg-server the disks of a head are missing in every pool, and the record has one member fewer."
    LegRejected "leg-rejected" Warning
        "A member that refuses a head stores no record for it: when the other head is lost, no head can open the pools."
    LegKeyOpen "leg-key-open" Warning
        "With a readable key any local user can read and write the disks of all other heads."
    LegSizeDiffers "leg-size-differs" Warning
        "The group has the room of its smallest disk, and the larger one is never filled."
    LegSectorDiffers "leg-sector-differs" Warning
        "A write is as slow as its slowest copy; a disk that reads before it writes delays every write."

    TimeoutZero "timeout-zero" Error
        "A time-out of nothing has always passed already."
    TokenShort "token-short" Warning
        "Healthy hosts stall for up to 160 ms now and then; a shorter token powers healthy heads off."
    TokenShortForGuest "token-short-for-guest" Warning
        "A hypervisor stops its guests for a good part of a second to move or snapshot them; with a shorter token that powers healthy heads off."
    ConsensusShort "consensus-short" Error
        "Corosync does not start with a consensus below 30 ms, and heads that give up before their peers could respond form clusters of their own."
    ProbeTimeoutShort "probe-timeout-short" Error
        "A link that must respond before it is probed twice flaps, and heads that lose all links at once fence each other."
    BudgetBelowDetection "budget-below-detection" Error
        "Nothing can be taken over before the loss has been noticed."
    ClientPatienceShort "client-patience-short" Error
        "Initiators that give up before a takeover completes report I/O errors, and file systems turn read-only."
    ClientPatienceThin "client-patience-thin" Warning
        "A takeover that works, but uses its time-outs to the full, completes after initiators have reported errors."
    StopShort "stop-short" Warning
        "A head that does not stop a pool in time is powered off, with every other pool on it."
    MonitorLong "monitor-long" Warning
        "If testing a pool may take longer than starting it, a hung server is noticed later than it could be replaced."
    MonitorShort "monitor-short" Warning
        "Under full load even a response from memory is slow; a short monitor time-out causes needless takeovers."
    FenceTimeoutShort "fence-timeout-short" Warning
        "Many BMCs need seconds to respond; a power-off that succeeds too late counts as failed and is repeated."
    DiskAnswerShort "disk-answer-short" Warning
        "A disk that is given up while it still retries costs the pool its redundancy: good disks stall for a second or two, and one that recovers a sector for up to seven, where that is bounded."
    DiskAnswerLong "disk-answer-long" Warning
        "A start or stop that times out before the pool has given up a hung disk fails, and a stop that fails powers the head off."
    ArcTooLarge "arc-too-large" Error
        "After a takeover one head serves the pools of both; if their caches do not fit, the kernel kills the server."
    ArcUnset "arc-unset" Hint
        "Without a size it cannot be checked whether the caches fit after a takeover."
    MtuUnfit "mtu-unfit" Error
        "IPv4 needs packets of 576 bytes, IPv6 of 1,280; none is longer than 65,535."

    NotAsked "not-asked" Hint
        "Half of all mistakes are on the machines, not in the file."
    NodeName "node-name" Error
        "Pacemaker identifies a head by the output of `uname -n`; under another name it joins as a stranger."
    HostId "host-id" Error
        "ZFS distinguishes owners of a pool by host id: two heads with the same one admit each other while the pool is in use."
    ProgramMissing "program-missing" Error
        "An operation that needs the binary fails, usually during a takeover."
    EngineRefused "engine-refused" Error
        "A head that cannot load its OpenZFS cannot take over a pool."
    VersionsDiffer "versions-differ" Warning
        "Heads with different versions are not tested together, except for a short time during an upgrade."
    FeaturesDiffer "features-differ" Warning
        "A pool with an enabled feature cannot be used where the feature is not supported."
    FeatureUnsupported "feature-unsupported" Error
        "A head without support for an active feature in its OpenZFS cannot import the pool."
    InterfaceMissing "interface-missing" Error
        "Addresses cannot be brought up on an interface that is not there."
    AddressMissing "address-missing" Error
        "Corosync does not start with an address that its host does not have, and the other heads cannot reach this one there."
    MtuMismatch "mtu-mismatch" Error
        "Small packets pass and large ones vanish: logins work, and the first large read hangs."
    DiskMissing "disk-missing" Error
        "A head that does not see the disks cannot take the pool over."
    DiskSectorLarger "disk-sector-larger" Error
        "For each write smaller than its own block the disk reads first; writes take several times as long."
    DiskUnaligned "disk-unaligned" Warning
        "Writes that straddle two blocks of the disk make it read and write both."
    NoReservations "no-reservations" Warning
        "A head that was thought to be off and wakes up is stopped by the disks only if they know reservations."
    ReservationsMissing "reservations-missing" Error
        "A pool that requires reservations is not started on disks without support for them."
    CachefileSet "cachefile-set" Error
        "A head that boots imports every pool its cache file names, also while the other head serves it."
    ImportAtBoot "import-at-boot" Error
        "A unit that imports pools at boot does not check ownership."
    ClockSkew "clock-skew" Warning
        "Logs of two heads cannot be put side by side, and certificates may not be valid yet."
    TokenBelowStall "token-below-stall" Error
        "This host was seen stalling for longer than the token: it will be powered off although it is healthy."
    AlertReceiver "alert-receiver" Error
        "A receiver that cannot be used receives no alert, and a failure is not noticed."
    AlertServerUnreachable "alert-server-unreachable" Warning
        "A head sends the alerts of the whole appliance. If it does not reach the server, another head must send them."
    SecretMissing "secret-missing" Error
        "Without the password of a fence device nothing is taken over. Without its key of TLS a pool is not served, without its keytab no client comes by Kerberos, and without its password or token a receiver gets no alert."
    SecretOpen "secret-open" Warning
        "With a readable password any local user can power the heads off; with a readable key or keytab, impersonate the pool's server."
    SecretInFile "secret-in-file" Warning
        "The cluster's configuration contains it, and shows it to every administrator of the cluster."
    ReplicationAddress "replication-address" Error
        "A sender finds the pool at an address that moves with it, and nowhere else after a takeover."
    PortTaken "port-taken" Error
        "Two servers cannot listen on one port: the pool would not start."
    TlsPath "tls-path" Error
        "A server runs in no particular directory, and a relative name is a different file there."
    TlsTwice "tls-twice" Error
        "Only one of them would be used, and the other may be the intended one."
    TlsUnusable "tls-unusable" Error
        "A pool with a server that cannot encrypt does not start on that head: a takeover fails there."
    TlsExpires "tls-expires" Warning
        "Clients refuse an expired certificate, and lose access to their disks."
    KeyFileMissing "key-file-missing" Warning
        "After a takeover the encrypted volumes of the pool stay locked there, and their initiators wait."
    ZoneReclaim "zone-reclaim" Warning
        "A processor without free memory of its own frees some before it uses remote memory: requests stall for it."
    NumaBalancing "numa-balancing" Hint
        "The kernel unmaps memory to see which processor uses it; each access that follows is a fault."
    Swappiness "swappiness" Hint
        "The kernel swaps servers out although memory is free of need; a server that is swapped in stalls its clients."
    ServerSwapped "server-swapped" Warning
        "A server in swap responds after its memory has been read from a disk: monitors fail, and a healthy pool is taken over."
    HugePages "huge-pages" Hint
        "The kernel compacts memory to build huge pages while a thread allocates; requests stall for milliseconds."
    ClockUnsynchronised "clock-unsynchronised" Warning
        "The clocks of heads drift apart: logs cannot be compared, certificates and Kerberos fail."
    CoreDump "core-dump" Warning
        "A dead server holds its disks and ports until its memory is written: the takeover is delayed for that time."
    IrqBalance "irq-balance" Hint
        "One processor may process the interrupts of all disks and interfaces, and limits them all."
    IdleStates "idle-states" Hint
        "A processor that leaves a deep idle state adds its delay to each request after a pause."
    DiskRequestSmall "disk-request-small" Hint
        "A block of 1 MiB becomes several requests; a hard disk can move its head between them."
    DiskScheduler "disk-scheduler" Hint
        "ZFS sorts and limits its requests itself; a scheduler that divides time between processes delays them again."
    DiskWriteCache "disk-write-cache" Hint
        "No write is lost, because ZFS flushes the cache; but each flush of a synchronous write costs time."
    RingSmall "ring-small" Hint
        "Packets of a burst are dropped when the ring is full; TCP sends them again after a time-out."
    MtuPath "mtu-path" Error
        "Small packets pass and large ones vanish on the way: logins work, and the first large read hangs."
    ShelfShared "shelf-shared" Warning
        "A shelf fails as a whole, by its power, its controllers or its cables; with it the pool loses more disks than it survives, and stalls."
    ShelfSingle "shelf-single" Hint
        "The pool stalls while the shelf is off, although each disk has a mirror or parity."
    PoolName "pool-name" Error
        "The cluster searches for a pool of that name, and finds none on the disks: no head serves it."
    DiskSinglePath "disk-single-path" Warning
        "With one cable, port or controller the head loses these disks, and the pool its redundancy; other disks continue over their second path."
    LinkSingle "link-single" Hint
        "When the cable, its port or the switch fails, no client reaches the pool until it is moved to another head."
    LinkDegraded "link-degraded" Warning
        "The bond survives one failure, which has happened."
    UpsThreshold "ups-threshold" Error
        "Heads that shut down too late lose their power before the pools are stopped; too early, at each short failure."
    UpsLogin "ups-login" Error
        "A user without a password, or a password without a user, is no login: upsd refuses it."
    UpsHeadUnfed "ups-head-unfed" Warning
        "A head without a listed power supply does not shut down, and loses its power while it serves."
    UpsSilent "ups-silent" Warning
        "A power supply that does not report its state cannot shut the heads down: they lose their power while they serve."
    FenceSilent "fence-silent" Error
        "A fence device that does not respond, or not for this user or outlet, cannot confirm that its head is off: no takeover starts."
    WitnessSilent "witness-silent" Warning
        "A head without the vote of the witness loses its quorum with the other head: all pools stall then."
    WitnessCertificate "witness-certificate" Error
        "Without its certificate the head is not admitted by the witness and has no vote more."
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
