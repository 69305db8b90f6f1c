// The types of the API. Made by `npm run types` from `bulkhead head openapi`: not to be edited.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * @description The clients that may use an export. An empty rule allows loopback (and Unix sockets) only. If
         *     several lists have entries, a client must be in each.
         */
        AccessRule: {
            /** @description Any client that reaches a portal. The lists are then ignored. */
            everyone?: boolean;
            /**
             * @description NBD clients by a name in their certificates (a DNS name or an address); empty means that any
             *     name is accepted. iSCSI ignores it.
             */
            identities?: string[];
            /** @description iSCSI initiators by name; empty means any name. NBD ignores it. */
            initiators?: components["schemas"]["IscsiName"][];
            /** @description Clients by network; empty means any address. */
            networks?: components["schemas"]["Subnet"][];
        };
        /** @description A recommended action. */
        Advice: {
            /** @description The button of the console. */
            button?: components["schemas"]["Button"] | null;
            /** @description The command that performs it, or shows details. */
            command?: string | null;
            /** @description The consequences of the same cause, each in a sentence. */
            details?: string[];
            /** @description The device concerned, if any. */
            device?: string | null;
            /** @description The head that is the cause, if one is: all consequences of its loss have the same. */
            head?: string | null;
            /** @description The consequence of a further failure, in a sentence. */
            risk?: string | null;
            /** @description Its severity. */
            severity: components["schemas"]["Severity"];
            /**
             * Format: uint64
             * @description Start of the fault or state, in milliseconds since 1970, if known.
             */
            since_ms?: number | null;
            /** @description The action, in words. */
            what: string;
            /** @description The reason: the fault or state. */
            why: string;
        };
        /** @description A condition that needs attention. */
        Alert: {
            /** @description The subject, such as `pool tank`. */
            about: string;
            /** @description The recommended action. */
            advice?: components["schemas"]["Advice"] | null;
            /** @description Consequences of the same cause, each in a sentence. */
            details?: string[];
            /** @description The condition, in a sentence. */
            sentence: string;
            /** @description `error`, `warning` or `info`. */
            severity: string;
            /**
             * Format: uint64
             * @description Its start, in milliseconds since 1970, as observed by this head.
             * @default null
             */
            since_ms?: number | null;
        };
        /** @description The receivers to test. */
        AlertTest: {
            /**
             * @description The name of one; all by default.
             * @default null
             */
            receiver?: string | null;
        };
        /** @description Messages about alerts. */
        Alerts: {
            /** @description The receivers, by name. */
            receivers: {
                [key: string]: components["schemas"]["Receiver"];
            };
        };
        /** @description A response. */
        Answer: {
            done: components["schemas"]["Done"];
        } | {
            status: components["schemas"]["Status"];
        } | {
            pool: components["schemas"]["PoolStatus"];
        } | {
            load: components["schemas"]["PoolLoad"];
        } | {
            pools: components["schemas"]["PoolSummary"][];
        } | {
            volumes: components["schemas"]["VolumeView"][];
        } | {
            replacement: components["schemas"]["ReplacementView"];
        } | {
            plan: components["schemas"]["PlanView"];
        } | {
            space: components["schemas"]["SpaceView"][];
        } | {
            volume: components["schemas"]["VolumeView"];
        } | {
            filesystems: components["schemas"]["FilesystemView"][];
        } | {
            filesystem: components["schemas"]["FilesystemView"];
        } | {
            checked: components["schemas"]["CheckView"];
        } | {
            open_files: components["schemas"]["OpenFilesView"];
        } | {
            owners: components["schemas"]["OwnersView"];
        } | {
            rolled_back: components["schemas"]["RolledBack"];
        } | {
            rescue: components["schemas"]["RescueView"];
        } | {
            rescues: components["schemas"]["RescueView"][];
        } | {
            keys: components["schemas"]["KeyView"][];
        } | {
            snapshots: components["schemas"]["SnapshotView"][];
        } | {
            changes: components["schemas"]["ChangesView"];
        } | {
            holds: components["schemas"]["HoldView"][];
        } | {
            bookmarks: components["schemas"]["BookmarkView"][];
        } | {
            schedules: components["schemas"]["ScheduleView"][];
        } | {
            targets: components["schemas"]["TargetView"][];
        } | {
            target: components["schemas"]["TargetView"];
        } | {
            discovery: components["schemas"]["DiscoveryView"];
        } | {
            chap: components["schemas"]["ChapView"];
        } | {
            nbd: components["schemas"]["NbdView"][];
        } | {
            portals: components["schemas"]["PortalView"][];
        } | {
            events: components["schemas"]["Event"][];
        } | {
            history: components["schemas"]["HistoryEntry"][];
        } | {
            transfer: components["schemas"]["TransferView"];
        } | {
            interrupted: components["schemas"]["InterruptedView"];
        } | {
            replication: components["schemas"]["ReplicationView"];
        } | {
            properties: {
                [key: string]: components["schemas"]["Property"];
            };
        };
        /**
         * @description One appliance: its heads, networks and pools.
         *
         *     The same file is stored on every head.
         */
        Appliance: {
            /** @description Messages about alerts. Absent: none. */
            alerts?: components["schemas"]["Alerts"] | null;
            /**
             * @description Properties of the clients, to compare their patience with a takeover.
             * @default {
             *       "replacement_timeout_s": 120
             *     }
             */
            clients?: components["schemas"]["Clients"];
            /**
             * Format: uint32
             * @description Version of this format: 1.
             */
            format: number;
            /** @description Heads by name, as `uname -n` prints it. */
            heads: {
                [key: string]: components["schemas"]["Head"];
            };
            /**
             * @description Hypervisors, or their cluster managers, by name; heads that are virtual machines refer to
             *     them.
             * @default {}
             */
            hypervisors?: {
                [key: string]: components["schemas"]["Hypervisor"];
            };
            /** @description How heads reach each other's disks. Required where a pool has `groups`. */
            legs?: components["schemas"]["Legs"] | null;
            /** @description Name of the appliance; Corosync's `cluster_name`. Letters, digits, `-` and `_`. */
            name: string;
            /** @description Networks by name. */
            networks: {
                [key: string]: components["schemas"]["Network"];
            };
            /**
             * @description Power distribution units by name; heads refer to their outlets.
             * @default {}
             */
            pdus?: {
                [key: string]: components["schemas"]["Pdu"];
            };
            /**
             * @description Pools by name.
             * @default {}
             */
            pools?: {
                [key: string]: components["schemas"]["Pool"];
            };
            /** @description Which heads may act when they do not all see each other. Required for more than one head. */
            quorum?: components["schemas"]["Quorum"] | null;
            /**
             * @description The time-outs of the cluster.
             * @default {
             *       "boot_wait_s": null,
             *       "consensus_ms": null,
             *       "disk_answer_s": null,
             *       "fence_monitor_s": null,
             *       "fence_s": null,
             *       "link_probe_interval_ms": null,
             *       "link_probe_timeout_ms": null,
             *       "link_probes_up": null,
             *       "pool_monitor_s": null,
             *       "pool_monitor_timeout_s": null,
             *       "pool_start_s": null,
             *       "pool_stop_s": null,
             *       "profile": "default",
             *       "takeover_budget_s": null,
             *       "token_ms": null
             *     }
             */
            timeouts?: components["schemas"]["TimeoutWishes"];
            /** @description Uninterruptible power supplies. With them the heads shut down in order before the batteries are empty. */
            ups?: components["schemas"]["Ups"] | null;
            /**
             * @description The third member (`bulkhead-witness`) of the record of legs with two heads. With `rule = "two-node"` it also decides
             *     which head survives when they do not see each other. Differs from the one in `quorum`, which has a vote and stores
             *     nothing.
             */
            witness?: components["schemas"]["LegWitness"] | null;
        };
        /** @description The command's output for an appliance file, with the file. */
        ApplianceApplied: {
            /** @description Whether any change was made. */
            changed: boolean;
            /** @description The changes. */
            changes: components["schemas"]["Change"][];
            /**
             * Format: int32
             * @description The exit code of the command.
             */
            exit_code: number;
            /** @description The file (TOML). */
            toml: string;
        };
        /** @description The command's output for an appliance file, with the file. */
        ApplianceCheckReport: {
            /**
             * Format: int32
             * @description The exit code of the command.
             */
            exit_code: number;
            /** @description The file. */
            file: string;
            /** @description The mistakes. */
            findings: components["schemas"]["Finding"][];
            /** @description The outcome of gathering facts, by head. */
            heads: {
                [key: string]: components["schemas"]["HeadAsked"];
            };
            /** @description The file (TOML). */
            toml: string;
            /** @description The severity of the worst finding. */
            worst?: components["schemas"]["FindingSeverity"] | null;
        };
        /** @description The appliance file of this head. */
        ApplianceFile: {
            /** @description The parsed file, if it is valid. */
            appliance?: components["schemas"]["Appliance"] | null;
            /** @description Its path. */
            path: string;
            /** @description Its text (TOML). */
            text: string;
        };
        /** @description An appliance file as input, as text or as JSON. */
        ApplianceInput: {
            /**
             * @description The same as JSON.
             * @default null
             */
            appliance?: components["schemas"]["Appliance"] | null;
            /**
             * @description Also query the other heads, by ssh.
             * @default false
             */
            reach_heads?: boolean;
            /**
             * @description The file's text (TOML).
             * @default null
             */
            text?: string | null;
        };
        /** @description The command's output for an appliance file, with the file. */
        AppliancePlan: {
            /** @description The changes. */
            changes: components["schemas"]["Change"][];
            /**
             * Format: int32
             * @description The exit code of the command.
             */
            exit_code: number;
            /**
             * @description Configuration that is retained although the file does not contain it, and settings that a
             *     running server adopts later.
             */
            notes: string[];
            /** @description Conditions that prevent the changes. */
            obstacles: components["schemas"]["Obstacle"][];
            /**
             * @description Pools of legs that do not exist yet. An administrator creates them after the changes; a later run configures
             *     Pacemaker for them.
             */
            pools_to_make: components["schemas"]["PoolToMake"][];
            /** @description The file (TOML). */
            toml: string;
        };
        /** @description One line. */
        AuditEntry: {
            /**
             * Format: uint64
             * @description The time, in milliseconds since 1970; of several entries the last one's.
             */
            at_ms: number;
            /**
             * Format: uint16
             * @description The HTTP status; for a command its exit code.
             */
            code: number;
            /**
             * Format: uint64
             * @description The number of further equal entries within a minute, if the line is for several.
             */
            count?: number | null;
            /** @description The operation's own details, such as the names of properties that it set. Never a value. */
            details?: string | null;
            /** @description The client's address, or the process. */
            from: string;
            /** @description `done`, or the kind of the failure. */
            outcome: string;
            /** @description Their role. */
            role?: string | null;
            /** @description The subject: the path of the resource. */
            target: string;
            /** @description The action: a verb such as `volume.create`, or a method and a path. */
            what: string;
            /** @description The user, or the name in a failed login. */
            who: string;
        };
        /** @description The source of the secret of the cluster. */
        AuthkeySource: "new" | {
            head: components["schemas"]["HeadName"];
        };
        /** @description A baseboard management controller that speaks IPMI 2.0 over the network. */
        Bmc: {
            /**
             * Format: ip
             * @description Its address.
             */
            address: string;
            /**
             * Format: uint8
             * @description IPMI cipher suite; 3 and 17 are common.
             * @default 3
             */
            cipher?: number;
            /** @description File on each head that holds the password, readable by root only. */
            password_file: string;
            /**
             * Format: uint16
             * @description Its UDP port.
             * @default 623
             */
            port?: number;
            /**
             * @description Privilege level to ask for.
             * @default administrator
             */
            privilege?: components["schemas"]["Privilege"];
            /** @description Name of an account that may switch the power. */
            user: string;
        };
        /** @description A bookmark. */
        BookmarkView: {
            /**
             * Format: uint64
             * @description When that snapshot was made, in seconds since 1970.
             */
            created_unix_s: number;
            /**
             * Format: uint64
             * @description The GUID of the snapshot that it was made of, which identifies it in streams.
             */
            guid: number;
            /** @description Its name, as `POOL/NAME#MARK`. */
            name: string;
        };
        /** @description The button of the console for it. */
        Button: "replace_disk" | "clear" | "online" | "scrub" | "resume_scrub" | "space";
        /** @description One change. */
        Change: {
            /** @constant */
            action: "write_file";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Whether there is no such file yet. */
            is_new: boolean;
            /** @description In an existing file: removed lines, marked `-`, and added ones, marked `+`. */
            lines: string[];
            /**
             * Format: uint32
             * @description Its permissions.
             */
            mode: number;
            /** @description Which. */
            path: string;
        } | {
            /** @constant */
            action: "write_authkey";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Which secret. */
            source: components["schemas"]["AuthkeySource"];
        } | {
            /** @constant */
            action: "write_peer_key";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Which key. */
            source: components["schemas"]["AuthkeySource"];
        } | {
            /** @constant */
            action: "set_portals";
            /** @description The portals that are removed. */
            gone: components["schemas"]["Portals"];
            /** @description The head on which it runs. */
            head: components["schemas"]["HeadName"];
            /** @description Even though clients are connected through a removed portal. */
            in_use: boolean;
            /** @description The portals that are new. */
            new: components["schemas"]["Portals"];
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
            /** @description The desired portals. */
            portals: components["schemas"]["Portals"];
        } | {
            /** @constant */
            action: "set_witness";
            /** @description The head on which it runs. */
            head: components["schemas"]["HeadName"];
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
            /** @description The witness, by its name in `legs.toml`; none for both heads alone. */
            witness?: string | null;
        } | {
            /** @constant */
            action: "add_head";
            /** @description The head, as `legs.toml` names it. */
            coming: string;
            /** @description The head on which it runs. */
            head: components["schemas"]["HeadName"];
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
        } | {
            /** @constant */
            action: "attach_leg";
            /** @description A leg of its group, by its name in `pool status`. */
            beside: string;
            /** @description The head on which it runs. */
            head: components["schemas"]["HeadName"];
            /** @description The new one. */
            leg: string;
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
        } | {
            /** @constant */
            action: "add_group";
            /** @description The group, as arguments of `pool add`. */
            group: string[];
            /** @description The head on which it runs. */
            head: components["schemas"]["HeadName"];
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
        } | {
            /** @constant */
            action: "stop_resources";
            /** @description Their names in Pacemaker. */
            resources: string[];
        } | {
            /** @constant */
            action: "reload_corosync";
            /** @description The head that runs the reload for all heads. */
            head: components["schemas"]["HeadName"];
        } | {
            /** @constant */
            action: "stop_unit";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Which. */
            unit: string;
        } | {
            /** @constant */
            action: "start_unit";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Which. */
            unit: string;
        } | {
            /** @constant */
            action: "await_legs";
            /** @description The head that becomes unavailable next. */
            head: components["schemas"]["HeadName"];
            /** @description The pools. */
            pools: components["schemas"]["PoolName"][];
        } | {
            /** @constant */
            action: "restart_unit";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Which. */
            unit: string;
        } | {
            /** @constant */
            action: "await_witness";
            /** @description Which. */
            head: components["schemas"]["HeadName"];
        } | {
            /** @constant */
            action: "make_certificate";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Names and addresses that it is for. */
            names: string[];
        } | {
            /** @constant */
            action: "configure_pacemaker";
            /** @description Its differences from the running configuration. */
            changes: components["schemas"]["CibChange"][];
        };
        /** @description A changed range of a volume. */
        ChangedExtent: {
            /** @description It was freed. */
            freed?: boolean;
            /**
             * Format: uint64
             * @description Number of bytes.
             */
            length: number;
            /**
             * Format: uint64
             * @description First byte.
             */
            offset: number;
        };
        /** @description The changes of a volume from one snapshot to a later one, in whole blocks. */
        ChangesView: {
            /**
             * Format: uint64
             * @description Number of extents.
             */
            extent_count: number;
            /** @description The first 100,000 extents, in ascending order. */
            extents: components["schemas"]["ChangedExtent"][];
            /**
             * Format: uint64
             * @description Bytes that were freed, and read as zeroes.
             */
            freed: number;
            /** @description The older snapshot. */
            from: components["schemas"]["SnapshotName"];
            /** @description The newer snapshot; none means the contents at the time of the request. */
            to?: components["schemas"]["SnapshotName"] | null;
            /**
             * Format: uint64
             * @description Bytes that were written.
             */
            written: number;
        };
        /** @description The mutual authentication of initiators and a target. Secrets are never part of a response. */
        ChapView: {
            /** @description CHAP users; with none, no secret is required. */
            chap_users: string[];
            /** @description The initiators that may use a user's secret, where they are restricted. */
            initiators?: {
                [key: string]: components["schemas"]["IscsiName"][];
            };
            /** @description The user name by which the target authenticates itself. */
            mutual_user?: string | null;
            /** @description The target. */
            target: components["schemas"]["IscsiName"];
        };
        /** @description The findings of a file system check. */
        CheckView: {
            /**
             * Format: uint64
             * @description The number of bytes that do not fit.
             */
            fault_count: number;
            /** @description The first hundred of it. */
            faults: components["schemas"]["FaultView"][];
            /** @description The file system. */
            name: string;
            /**
             * Format: uint64
             * @description Names in directories.
             */
            names: number;
            /**
             * Format: uint64
             * @description Files, directories and the like.
             */
            objects: number;
            /**
             * Format: uint64
             * @description Its duration.
             */
            took_ms: number;
        };
        /** @description A change to one object of Pacemaker. */
        CibChange: {
            /** @constant */
            change: "add";
            /** @description Its kind and name. */
            what: string;
        } | {
            /** @constant */
            change: "modify";
            /** @description Single values, before and after. */
            values: components["schemas"]["ValueChange"][];
            /** @description Its kind and name. */
            what: string;
        } | {
            /** @constant */
            change: "remove";
            /** @description Its kind and name. */
            what: string;
        };
        /** @description How the disks of a pool are protected from a head that lost the pool without noticing, such as one that was frozen. */
        Claims: "auto" | "reservations" | "locks";
        /** @description Properties of the clients. */
        Clients: {
            /**
             * Format: uint32
             * @description How long initiators queue I/O of a lost session before they report an error, in seconds:
             *     `node.session.timeo.replacement_timeout` of open-iscsi, or the queueing time of multipath
             *     above it.
             * @default 120
             */
            replacement_timeout_s?: number;
        };
        /** @description A volume that was replicated into the pool. */
        CopyView: {
            /**
             * Format: uint64
             * @description Seconds since then; none if it is in the future by the clock of this head: then a clock is wrong.
             */
            age_s?: number | null;
            /**
             * Format: uint64
             * @description The timestamp of its contents, or that at its promotion, in seconds since 1970.
             */
            contents_unix_s?: number | null;
            /** @description Its exports after a promotion. */
            exports?: string[];
            /** @description The identity of the original for its initiators. */
            identity?: components["schemas"]["Identity"] | null;
            /** @description A stream into it is being received. */
            is_arriving?: boolean;
            /**
             * Format: uint64
             * @description Since when the sender does not replicate its original, which was renamed or destroyed there, in seconds since
             *     1970.
             */
            orphaned_unix_s?: number | null;
            /**
             * Format: uint64
             * @description When it was promoted, in seconds since 1970.
             */
            promoted_unix_s?: number | null;
            /** @description Which. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description Data that is damaged beyond repair. */
        DamageView: {
            /** @description The dataset, or `metadata of POOL`. */
            dataset: string;
            /**
             * Format: uint64
             * @description Length in bytes; 0 if unknown.
             */
            length: number;
            /**
             * Format: uint64
             * @description First byte of the volume that is damaged; none if it is no range of a volume's data.
             */
            offset?: number | null;
            /** @description The newest snapshot that does not share the damaged blocks. */
            snapshot?: components["schemas"]["SnapshotName"] | null;
        };
        /** @description Savings of deduplication in a pool. */
        DedupView: {
            /**
             * Format: uint64
             * @description The deduplication ratio in percent: 250 for 2.5.
             */
            percent: number;
            /**
             * Format: uint64
             * @description Bytes that it saves.
             */
            saved: number;
        };
        /** @description Devices that are added to a pool together. */
        DeviceGroup: {
            /** @description Files or block devices. */
            devices: string[];
            /** @description Their redundancy. */
            kind: components["schemas"]["GroupKind"];
            /** @description Their purpose. */
            role: components["schemas"]["GroupRole"];
        };
        /** @description I/O of a pool, a group or a device. Counts of a group and of the pool are the sums of their devices'. */
        DeviceLoad: {
            /**
             * Format: uint64
             * @description Requests that are active on devices.
             */
            active: number;
            /**
             * Format: uint64
             * @description Bytes in use; 0 for a device in a group.
             */
            allocated: number;
            /** @description Members of a group. */
            members?: components["schemas"]["DeviceLoad"][];
            /** @description As `DeviceView::name`; the name of the pool. */
            name: string;
            /**
             * Format: uint64
             * @description Requests that are queued for devices.
             */
            pending: number;
            /**
             * Format: uint64
             * @description Bytes read.
             */
            read_bytes: number;
            /**
             * @description Number of reads by latency on a device: entry n counts those from 2^n nanoseconds to twice that; trailing zeros
             *     are omitted.
             */
            read_waits: number[];
            /**
             * Format: uint64
             * @description Reads.
             */
            reads: number;
            /**
             * Format: uint64
             * @description Total bytes; 0 for a device in a group.
             */
            size: number;
            /** @description The same for writes. */
            write_waits: number[];
            /**
             * Format: uint64
             * @description Writes.
             */
            writes: number;
            /**
             * Format: uint64
             * @description Bytes written.
             */
            written_bytes: number;
        };
        /** @description A device or a group of devices. */
        DeviceView: {
            /**
             * Format: uint64
             * @description Allocated bytes of it.
             */
            allocated?: number;
            /**
             * Format: uint64
             * @description Blocks with a checksum mismatch.
             */
            checksum_errors: number;
            /** @description Members of a group. */
            members?: components["schemas"]["DeviceView"][];
            /** @description Path, or the group's name such as `mirror-0`. */
            name: string;
            /** @description The reason for its state, if it has a fault. */
            note?: string | null;
            /**
             * Format: uint64
             * @description Reads that failed.
             */
            read_errors: number;
            /**
             * Format: uint64
             * @description Bytes that the last scrub or resilver repaired on it.
             * @default 0
             */
            repaired?: number;
            /** @description `data`, `log`, `cache` or `spare`. */
            role: string;
            /**
             * Format: uint64
             * @description Capacity of a group in bytes, with parity; 0 for a member of a group, and where it is unknown.
             */
            size?: number;
            /** @description `ONLINE`, `DEGRADED`, `FAULTED`, `OFFLINE`, `UNAVAIL`, `REMOVED`. */
            state: string;
            /**
             * Format: uint64
             * @description Writes that failed.
             */
            write_errors: number;
        };
        /** @description Remove users and secrets; without any user every initiator may perform discovery. */
        DiscoveryChapClear: {
            /**
             * @description Even though no secret is required afterwards: every initiator may perform discovery.
             * @default false
             */
            no_secret?: boolean;
            /** @description One user, or all with the mutual secret. */
            user?: string | null;
        };
        /** @description Require a name and a secret for discovery. */
        DiscoveryChapSet: {
            /** @description Its secret. */
            secret: components["schemas"]["Secret"];
            /** @description The initiator's user name. */
            user: string;
        };
        /** @description Authenticate the server to initiators that require it during discovery, too. */
        DiscoveryMutualSet: {
            /** @description Its secret, unlike any initiator's. */
            secret: components["schemas"]["Secret"];
            /** @description Our user name. */
            user: string;
        };
        /** @description Requests about discovery. */
        DiscoveryRequest: "show" | {
            chap_set: components["schemas"]["DiscoveryChapSet"];
        } | {
            mutual_set: components["schemas"]["DiscoveryMutualSet"];
        } | {
            chap_clear: components["schemas"]["DiscoveryChapClear"];
        };
        /**
         * @description The authentication required for discovery of a pool's targets. Secrets are never part of a
         *     response.
         */
        DiscoveryView: {
            /** @description CHAP users; with none, every initiator may perform discovery. */
            chap_users: string[];
            /** @description The user name by which the server authenticates itself. */
            mutual_user?: string | null;
            /** @description The pool. */
            pool: string;
        };
        /** @description The health of a disk. */
        DiskHealth: {
            /** @description The faults, a sentence each. */
            faults?: string[];
            /** @description Version of its firmware. */
            firmware?: string | null;
            /** @description Its model. */
            model?: string | null;
            /**
             * Format: uint64
             * @description Sectors that could not be read, and are replaced when they are written.
             */
            pending_sectors?: number | null;
            /**
             * Format: uint64
             * @description Hours that it was on.
             */
            power_on_hours?: number | null;
            /**
             * Format: uint64
             * @description Sectors that were replaced by spare ones.
             */
            reallocated_sectors?: number | null;
            /** @description Its serial number. */
            serial?: string | null;
            /** @description `good`, `warning`, `failing`, `standby` (it sleeps, and was not woken) or `unknown`. */
            state: string;
            /**
             * Format: int64
             * @description Its temperature, in degrees Celsius.
             */
            temperature_celsius?: number | null;
            /**
             * Format: uint64
             * @description Errors that the disk could not correct, over its life.
             */
            uncorrectable_errors?: number | null;
            /**
             * Format: uint64
             * @description The used part of the specified writes, in percent; more than 100 is possible.
             */
            wear_percent?: number | null;
        };
        /** @description A disk of this head. */
        DiskView: {
            /**
             * @description Whether the slot has a locate light.
             * @default false
             */
            has_light?: boolean;
            /** @description Its health by SMART, at most some minutes old. */
            health?: components["schemas"]["DiskHealth"] | null;
            /** @description Its model. */
            model?: string | null;
            /** @description Its persistent path. */
            path: string;
            /**
             * Format: uint
             * @description The number of paths of a multipath device.
             */
            paths?: number | null;
            /**
             * Format: uint64
             * @description Its size in bytes.
             */
            size: number;
            /** @description Its slot, if it is in an enclosure: the enclosure and the name of the slot. */
            slot?: string | null;
            /** @description Its user, such as `pool tank`. */
            used_by?: string | null;
        };
        /** @description The requested state is established. */
        Done: {
            /** @description Whether a change was necessary; `false` means that the state existed already. */
            changed: boolean;
            /**
             * @description The names of destroyed objects, or in a dry run of those that would be destroyed, where there can be several.
             *     Children follow their dataset.
             */
            destroyed?: string[];
            /** @description The names of created objects, where there can be several. */
            made?: string[];
            /** @description The change that was made, or the state that already existed. */
            message: string;
        };
        /** @description Limits on the pause of a client, in seconds. */
        DrillBounds: {
            /**
             * Format: double
             * @description Limit on the median of all rounds.
             */
            median_s: number;
            /**
             * Format: double
             * @description Limit on each round.
             */
            worst_s: number;
        };
        /** @description The expected outcome of a drill. */
        DrillExpectation: {
            /**
             * Format: uint32
             * @description The part of every pause that the fault itself causes, in milliseconds.
             */
            added_ms: number;
            /** @description Whether a head is powered off: `required`, `forbidden` or `allowed`. */
            fencing: string;
            /** @description The promise that applies. */
            kind: components["schemas"]["DrillKind"];
            /** @description The means of detection, such as `cluster` or `monitor`. */
            notice: string;
            /** @description The pool's head afterwards: `elsewhere`, `same` or `anywhere`. */
            place: string;
        };
        /** @description Drills to run in a lab. */
        DrillInput: {
            /**
             * @description Their names; empty means all.
             * @default []
             */
            names?: string[];
            /**
             * @description The time-outs to drill with, such as `fast`.
             * @default null
             */
            profile?: string | null;
            /**
             * Format: uint32
             * @description Rounds of each.
             * @default null
             */
            rounds?: number | null;
            /**
             * Format: uint64
             * @description The seed of random choices.
             * @default null
             */
            seed?: number | null;
        };
        /** @description The kind of a drill's fault. */
        DrillKind: "crash" | "cut-off" | "move" | "hidden" | "unbounded";
        /** @description All rounds of one drill with the verdict. The report has more fields. */
        DrillReport: {
            /** @description The bounds on its pauses. */
            bounds?: components["schemas"]["DrillBounds"] | null;
            /** @description How the median exceeded its limit. */
            broken?: unknown;
            /** @description Its name. */
            drill: string;
            /**
             * Format: double
             * @description Median of the pauses, in seconds.
             */
            median_s?: number | null;
            /** @description The rounds. */
            rounds: components["schemas"]["DrillRound"][];
            /** @description Why it was skipped. */
            skipped?: string | null;
            /** @description Median time of each step after the fault, in seconds. */
            steps_s: {
                [key: string]: number;
            };
            /**
             * Format: double
             * @description The longest, in seconds.
             */
            worst_s?: number | null;
        };
        /** @description The result of one round. The report has more fields. */
        DrillRound: {
            /** @description The broken promises. */
            broken: unknown[];
            /** @description Times at which the pool was open in two processes. */
            double_imports: string[];
            /** @description Errors seen by an application. */
            errors: string[];
            /** @description Lost acknowledged writes, and contents that were never written. */
            violations: string[];
        };
        /** @description A drill that can be run. */
        DrillView: {
            /** @description The fault. */
            about: string;
            /** @description The expected outcome. */
            expectation: components["schemas"]["DrillExpectation"];
            /** @description Its name. */
            name: string;
        };
        /** @description The result of drills. The report has more fields. */
        DrillsReport: {
            /** @description The drills. */
            drills: components["schemas"]["DrillReport"][];
        };
        /** @description Packets that were lost for one reason. */
        DropView: {
            /** @description The interface, queue, processor, protocol or function of the kernel. */
            at: string;
            /** @description The cause, where it is known. */
            cause?: string | null;
            /**
             * Format: uint64
             * @description How many in the interval.
             */
            count: number;
            /** @description The layer. */
            layer: components["schemas"]["Layer"];
            /** @description The address of this host. */
            local?: string | null;
            /** @description The address of the peer. */
            peer?: string | null;
            /** @description The kernel's name of the counter or of the reason. */
            reason: string;
            /** @description The remedy. */
            remedy?: string | null;
            /**
             * Format: uint64
             * @description How many since the counter began; none for reports of single packets.
             */
            total?: number | null;
        };
        /** @description The packets that this head lost in the last interval. */
        DropsView: {
            /** @description The losses, the largest first. */
            losses: components["schemas"]["DropView"][];
            /**
             * Format: uint
             * @description How many smaller ones are left out.
             */
            more: number;
            /** @description What could not be read, with the remedy. */
            notes: string[];
            /**
             * Format: uint64
             * @description The length of the interval; none if the first one is being measured.
             */
            seconds?: number | null;
        };
        /** @description An event of a pool. */
        Event: {
            /**
             * Format: uint64
             * @description When, in milliseconds since 1970.
             */
            at_ms: number;
            /** @description The device concerned, if any. */
            device?: string | null;
            /** @description Its kind, such as `suspended`; `docs/formats/events.md` lists all. */
            kind: string;
            /** @description The event in a sentence. */
            message: string;
            /**
             * Format: uint64
             * @description Its number in the pool's history of events, from 1 on.
             */
            number: number;
        };
        /** @description A head that could not serve a pool. */
        ExclusionView: {
            /** @description The head. */
            head: string;
            /** @description The pool. */
            pool: string;
            /**
             * Format: uint64
             * @description Time of the failure, in milliseconds since 1970.
             */
            since_ms?: number | null;
            /** @description Why, as its agent reported it. */
            why?: string | null;
        };
        /** @description An export that clients of a protocol can connect to. */
        ExportView: {
            /** @description Its name. */
            name: string;
            /** @description Sessions now. */
            sessions?: components["schemas"]["SessionView"][];
            /** @description Its volumes. */
            volumes: components["schemas"]["VolumeName"][];
        };
        /** @description A device that should be replaced. */
        FailingView: {
            /**
             * Format: uint64
             * @description Blocks with a checksum mismatch.
             */
            checksum_errors: number;
            /** @description Its path. */
            device: string;
            /** @description Why it is in this state. */
            note?: string | null;
            /**
             * Format: uint64
             * @description Reads that failed.
             */
            read_errors: number;
            /** @description As [`DeviceView::state`]. */
            state: string;
            /**
             * Format: uint64
             * @description Writes that failed.
             */
            write_errors: number;
        };
        /** @description A failed request as it is sent and printed. */
        Failure: {
            /** @description The remedy, if there is one. */
            advice?: string | null;
            /** @description The kind that scripts match on. */
            kind: components["schemas"]["FailureKind"];
            /** @description The failed step, outermost first, causes joined by `: `. */
            message: string;
        };
        /** @description Kinds of failure. The numbers are the exit codes of the command line and are stable. */
        FailureKind: "failed" | "usage" | "not_found" | "exists" | "busy" | "needs_confirmation" | "unreachable" | "unavailable" | "no_space" | "denied" | "unsupported";
        /** @description An inconsistency in a file system. */
        FaultView: {
            /**
             * Format: uint64
             * @description The number of the object concerned, as `zdb` accepts it.
             */
            object: number;
            /** @description Its path in the file system, if it has one. */
            path?: string | null;
            /** @description The inconsistency, in a sentence without its subject. */
            what: string;
        };
        /** @description One uninterruptible power supply. */
        Feed: {
            /** @description The heads that it supplies. Absent: all. */
            heads?: string[] | null;
            /** @description File on each head that holds its password, readable by root only. */
            password_file?: string | null;
            /**
             * @description Its name at its `upsd`, and the address of that, as `NAME@ADDRESS` or `NAME@ADDRESS:PORT`, such as
             *     `rack-a@10.77.9.51`. The port is 3493 by default.
             */
            ups: components["schemas"]["UpsAddress"];
            /** @description Name of an account of `upsd.users`, where `upsd` requires one. */
            user?: string | null;
        };
        /** @description A device that powers a head off. */
        FenceDeviceView: {
            /** @description The head that it powers off. */
            head: string;
            /**
             * Format: uint32
             * @description 1 is tried first. All devices of a level are needed.
             */
            level: number;
            /** @description Its name in Pacemaker. */
            name: string;
            /** @description The network of the appliance that its address belongs to, if known. */
            network?: string | null;
            /**
             * Format: uint64
             * @description Start of the failure, in milliseconds since 1970.
             */
            since_ms?: number | null;
            /** @description `works`, `failed`, `unverified` (no head could start it) or `unknown` (no head that would use it is up). */
            state: string;
            /** @description Why it failed. */
            why?: string | null;
        };
        /** @description How a head is powered off. Tried in this order: the hypervisor, the BMC, all outlets together. */
        Fencing: {
            /**
             * @description The head's baseboard management controller. For a virtual machine: that of its host, and all
             *     guests there are powered off with it.
             * @default null
             */
            bmc?: components["schemas"]["Bmc"] | null;
            /**
             * Format: uint32
             * @description Wait before this head is powered off, in seconds (Pacemaker's smallest unit). With two heads and no witness
             *     exactly one has a longer delay: when both are healthy and do not see each other, that one survives. Prefer the
             *     head that serves fewer pools, because a crash of the other is then taken over without the wait. With a witness
             *     leave it out: the head that survives is decided with the witness.
             * @default 0
             */
            delay_s?: number;
            /**
             * @description The outlets of its power supplies, or of the host that runs it: all of them must be off.
             * @default []
             */
            outlets?: components["schemas"]["Outlet"][];
            /**
             * @description The head's identity at its hypervisor, where it is a virtual machine.
             * @default null
             */
            virtual_machine?: components["schemas"]["VirtualMachine"] | null;
        };
        /** @description An NFS client, and the amount of its state in a file system. */
        FileClientView: {
            /** @description Its address; for a client of version 4 with an IPv6 address its network (/64). */
            address: string;
            /** @description Its id, for `filesystem expire-client`. */
            client: string;
            /** @description Its lease has expired: another client that requests its state gets it. */
            expired?: boolean;
            /**
             * Format: uint64
             * @description Locked ranges.
             */
            locks: number;
            /** @description The name that it reports. */
            name: string;
            /**
             * Format: uint64
             * @description Opens.
             */
            opens: number;
            /**
             * Format: uint64
             * @description Seconds since its last message.
             */
            silent_s: number;
            /** @description The version of NFS: `3`, `4.0`, or `4.1+` for 4.1 and 4.2. */
            version: string;
            /**
             * Format: uint64
             * @description Ranges that it is blocked on. Only clients of version 3 report blocked requests.
             */
            waiting: number;
        };
        /** @description A range of a file that is locked or requested. */
        FileLockView: {
            /** @description The client that holds it. */
            client: string;
            /** @description No other client may have it. */
            exclusive: boolean;
            /**
             * Format: uint64
             * @description Length in bytes; none: to the end of the file.
             */
            length?: number | null;
            /**
             * Format: uint64
             * @description The first byte.
             */
            offset: number;
            /** @description The process and host, as the client reports them. Only clients of version 3 report them. */
            process?: string | null;
        };
        /** @description I/O of clients in a file system since the server began to share it. */
        FileSystemActivity: {
            /**
             * Format: uint64
             * @description Requests that failed by an I/O error, which are counted nowhere else.
             */
            errors: number;
            /** @description The file system. Empty: the total of those beyond the limit of separate counters. */
            name: string;
            /** @description All other requests: names, attributes, opens, locks, and commits of earlier writes. */
            others: components["schemas"]["RequestActivity"];
            /** @description Requests that read from files. */
            reads: components["schemas"]["RequestActivity"];
            /** @description Requests that wrote to files. Includes the time for durability where it was requested. */
            writes: components["schemas"]["RequestActivity"];
        };
        /** @description Rates of a file system. */
        FileSystemRates: {
            /** @description Its name; empty for the sum of all that are too many for counters of their own. */
            filesystem: string;
            /**
             * Format: double
             * @description Mean time of another request, in microseconds, if there was one.
             */
            other_latency_us?: number | null;
            /**
             * Format: double
             * @description All other requests in a second: names, attributes, opens, locks.
             */
            other_ops_per_s: number;
            /** @description Its pool. */
            pool: string;
            /**
             * Format: double
             * @description Bytes read in a second.
             */
            read_bytes_per_s: number;
            /**
             * Format: double
             * @description Mean time of a read, in microseconds, if there was one.
             */
            read_latency_us?: number | null;
            /**
             * Format: double
             * @description Reads in a second.
             */
            read_ops_per_s: number;
            /**
             * Format: double
             * @description Bytes written in a second.
             */
            write_bytes_per_s: number;
            /**
             * Format: double
             * @description Mean time of a write, in microseconds, if there was one.
             */
            write_latency_us?: number | null;
            /**
             * Format: double
             * @description Writes in a second.
             */
            write_ops_per_s: number;
        };
        /** @description A change of a file system. */
        FilesystemChange: {
            /**
             * @description Properties to reset to the parent's value.
             * @default []
             */
            inherit?: string[];
            /**
             * @description Another name, `POOL/NAME`.
             * @default null
             */
            name?: components["schemas"]["VolumeName"] | null;
            /**
             * @description Other values of properties.
             * @default {}
             */
            properties?: {
                [key: string]: string;
            };
        };
        /**
         * @description Check the consistency of names, files and directories of a file system
         *
         *     A scrub verifies that stored data is unchanged. This verifies that it is consistent: every name
         *     refers to a file, every file has as many names as its link count, and every directory is
         *     reachable from the root. It reads a snapshot, which it creates and destroys, so that clients are
         *     not interrupted. Nothing is repaired.
         */
        FilesystemCheck: {
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Create a file system */
        FilesystemCreate: {
            /** @description Succeed if the file system exists. */
            exist_ok: boolean;
            /**
             * Format: uint32
             * @description Numeric group id of its root directory.
             */
            group: number;
            /** @description A key of its own. Without one it inherits: plain, or encrypted with the parent's key. */
            key?: components["schemas"]["KeySettings"] | null;
            /** @description Permissions of its root directory. */
            mode: components["schemas"]["Permissions"];
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /**
             * Format: uint32
             * @description Numeric user id of the owner of its root directory.
             */
            owner: number;
            /** @description Create missing parents. */
            parents: boolean;
            /** @description Native (`sharenfs`, `quota`, `recordsize`, ...) and user (`a:b`) properties. */
            properties: {
                [key: string]: string;
            };
        };
        /** @description Destroy a file system, or a dataset that holds volumes */
        FilesystemDestroy: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
            /** @description Also its snapshots and all its children: file systems, volumes, and their snapshots */
            recursive: boolean;
            /** @description Even though it is shared, or in use: clients lose it, and its children are no longer exported */
            shared: boolean;
        };
        /**
         * @description Revoke the opens and locks of an NFS client, as if its lease had expired
         *
         *     For a client that is permanently gone and holds locks that block other clients. It loses all its state in this pool,
         *     in other file systems too. Blocked lock requests are granted at once. A client that is still running may reconnect:
         *     its processes that had locks get errors. To exclude it, change `sharenfs`.
         */
        FilesystemExpireClient: {
            /** @description The client, as shown by `filesystem open-files` */
            client: string;
            /**
             * @description Although it was active within the last 20 seconds, and so may still be running
             * @default false
             */
            in_use?: boolean;
            /** @description A file system that it uses */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Read properties */
        FilesystemGet: {
            /** @description The file system, or a pool for the values that its file systems inherit */
            name: string;
            /** @description Which properties, separated by blanks or commas, or `all` [default: all] */
            names: string[];
        };
        /** @description Remove a property's own value, so that the parent's is inherited */
        FilesystemInherit: {
            /** @description The file system */
            name: string;
            /** @description Which properties */
            names: string[];
        };
        /** @description The request. */
        FilesystemList: {
            /** @description Only those in a dataset, or with such a name: `tank/vms`, `tank/web-*` or `web-*`. */
            only?: components["schemas"]["Selection"] | null;
        };
        /**
         * @description Show which files NFS clients have open and locked, and which clients are blocked on a lock
         *
         *     Clients of version 3 open nothing: only their locks are known.
         */
        FilesystemOpenFiles: {
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /**
         * @description Swap roles with the file system that this one was cloned from, so that the origin can be
         *     destroyed
         */
        FilesystemPromote: {
            /**
             * @description Refuse to change a property that only an admin may set. A head sets it for other roles.
             * @default false
             */
            keep_rights?: boolean;
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Rename a file system within its pool; its children move along, and open files stay open */
        FilesystemRename: {
            /** @description The file system */
            from: components["schemas"]["VolumeName"];
            /**
             * @description Refuse to change a property that only an admin may set. A head sets it for other roles.
             * @default false
             */
            keep_rights?: boolean;
            /** @description Its new name */
            to: components["schemas"]["VolumeName"];
        };
        /** @description Requests about file systems. */
        FilesystemRequest: {
            create: components["schemas"]["FilesystemCreate"];
        } | {
            show: components["schemas"]["FilesystemShow"];
        } | {
            destroy: components["schemas"]["FilesystemDestroy"];
        } | {
            rename: components["schemas"]["FilesystemRename"];
        } | {
            rollback: components["schemas"]["FilesystemRollback"];
        } | {
            promote: components["schemas"]["FilesystemPromote"];
        } | {
            get: components["schemas"]["FilesystemGet"];
        } | {
            set: components["schemas"]["FilesystemSet"];
        } | {
            inherit: components["schemas"]["FilesystemInherit"];
        } | {
            check: components["schemas"]["FilesystemCheck"];
        } | {
            userspace: components["schemas"]["FilesystemUserspace"];
        } | {
            open_files: components["schemas"]["FilesystemOpenFiles"];
        } | {
            expire_client: components["schemas"]["FilesystemExpireClient"];
        } | {
            list: components["schemas"]["FilesystemList"];
        };
        /**
         * @description Roll a file system back to a snapshot, even while it is shared and in use
         *
         *     Changes since the snapshot are lost. Clients are paused and stay connected. Files that were created since are stale
         *     for them (ESTALE); open files that exist in the snapshot have their contents of then.
         */
        FilesystemRollback: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /**
             * @description Destroy the file system's newer snapshots
             * @default false
             */
            destroy_newer?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description The snapshot, as POOL/NAME@SNAPSHOT */
            to: components["schemas"]["SnapshotName"];
        };
        /** @description Change properties */
        FilesystemSet: {
            /** @description File system, or the pool's name for the root dataset. */
            name: string;
            /** @description New values. */
            properties: {
                [key: string]: string;
            };
        };
        /** @description Show one file system with its properties, its share, and its clients */
        FilesystemShow: {
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Show the space that each user, group or project uses in a file system, and their quotas */
        FilesystemUserspace: {
            /** @description The file system. */
            name: components["schemas"]["VolumeName"];
            /**
             * @description Users, groups or projects.
             * @default user
             */
            of?: components["schemas"]["OwnerKind"];
            /** @description One of its snapshots, by its full name, instead. */
            snapshot?: components["schemas"]["SnapshotName"] | null;
        };
        /** @description A file system. */
        FilesystemView: {
            /**
             * Format: uint64
             * @description Space that is available to it.
             */
            available: number;
            /** @description Its current clients, in words. */
            clients?: string[];
            /** @description It is encrypted and its key is not loaded. */
            locked?: boolean;
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description The snapshot it was cloned from. */
            origin?: string | null;
            /** @description Properties; only in detail. */
            properties?: {
                [key: string]: components["schemas"]["Property"];
            };
            /**
             * Format: uint64
             * @description Space used by its files.
             */
            referenced: number;
            /** @description The rule by which it is shared over the network. */
            share: components["schemas"]["ShareView"];
            /**
             * @description Its use of space, and its limits.
             * @default {
             *       "available": 0,
             *       "by_children": 0,
             *       "by_data": 0,
             *       "by_reservation": 0,
             *       "by_snapshots": 0,
             *       "compress_percent": 0,
             *       "logical_referenced": 0,
             *       "logical_used": 0,
             *       "used": 0,
             *       "written": 0
             *     }
             */
            space?: components["schemas"]["SpaceView"];
            /**
             * Format: uint64
             * @description Space that it, its snapshots and its children occupy.
             */
            used: number;
        };
        /** @description The fill of a pool at one time. In bytes. */
        FillView: {
            /**
             * Format: uint64
             * @description Seconds since 1970.
             */
            at: number;
            /** @description Its groups. */
            groups: components["schemas"]["GroupFill"][];
            /**
             * Format: uint64
             * @description Capacity for datasets.
             */
            usable: number;
            /**
             * Format: uint64
             * @description Used space of the datasets, with reservations.
             */
            used: number;
        };
        /** @description One mistake. */
        Finding: {
            /** @description Its kind. */
            code: string;
            /** @description The remedy. */
            mend: string;
            /** @description Its severity. */
            severity: components["schemas"]["FindingSeverity"];
            /** @description The mistake. */
            what: string;
            /** @description Where it is. */
            where: components["schemas"]["Place"];
            /** @description The consequence of the mistake. */
            why: string;
        };
        /** @description The severity of a finding. */
        FindingSeverity: "hint" | "warning" | "error";
        /** @description The certificate of a pool, identified by its fingerprint. */
        Fingerprint: string;
        /** @description When a pool will be full, at the rate of the last 30 days. */
        ForecastView: {
            /**
             * Format: int64
             * @description Growth of the used space a day, in bytes; negative if it shrinks.
             */
            bytes_per_day?: number | null;
            /**
             * Format: uint64
             * @description Days with a sample that were used.
             */
            days_used: number;
            /**
             * Format: uint64
             * @description When it is full, in seconds since 1970.
             */
            full_at?: number | null;
            /**
             * Format: uint64
             * @description Whole days from the newest sample until it is full.
             */
            full_in_days?: number | null;
            /**
             * @description `growing`, `steady` (it does not grow, or is not full within ten years), or `unknown`: fewer than five days with a
             *     sample, or none in the last two days.
             */
            state: string;
        };
        /** @description A volume with paused writes of clients. Times are in milliseconds since 1970. */
        FrozenView: {
            /**
             * Format: uint64
             * @description Since when.
             */
            since_ms: number;
            /**
             * Format: uint64
             * @description When the freeze expires.
             */
            until_ms: number;
        };
        /** @description A group of data before and after a change. */
        GroupChange: {
            /**
             * Format: uint64
             * @description Allocated bytes after; none if it is gone then.
             */
            allocated_after?: number | null;
            /**
             * Format: uint64
             * @description Allocated bytes before; none if it is new.
             */
            allocated_before?: number | null;
            /** @description Its name. A group that does not exist yet is named by its devices. */
            group: string;
            /**
             * Format: uint64
             * @description Capacity after.
             */
            size_after?: number | null;
            /**
             * Format: uint64
             * @description Capacity before.
             */
            size_before?: number | null;
        };
        /** @description The fill of a group of devices. In bytes, with parity. */
        GroupFill: {
            /**
             * Format: uint64
             * @description Allocated bytes.
             */
            allocated: number;
            /** @description Its name. */
            group: string;
            /**
             * Format: uint64
             * @description Capacity.
             */
            size: number;
        };
        /** @description The redundancy of one group. */
        GroupKind: "stripe" | "mirror" | {
            raidz: {
                /**
                 * Format: uint8
                 * @description 1, 2 or 3.
                 */
                parity: number;
            };
        };
        /** @description The purpose of a group. */
        GroupRole: "data" | "log" | "cache" | "spare";
        /** @description The fill of a pool over time, and when it will be full. */
        GrowthView: {
            /** @description The first sample of each day, the oldest first. */
            days: components["schemas"]["FillView"][];
            /** @description When it will be full. */
            forecast: components["schemas"]["ForecastView"];
            /** @description The first sample of each of the last 48 hours with a sample, the oldest first. */
            hours: components["schemas"]["FillView"][];
            /** @description The pool. */
            pool: string;
        };
        /** @description A fault that the hardware of a head reports. */
        HardwareFault: {
            /** @description The model, serial number and slot of a disk, as far as they are known. */
            description?: string | null;
            /** @description The faults, a sentence each. */
            faults: string[];
            /** @description The head. */
            head: string;
            /** @description Whether the part has failed, or predicts that. */
            is_failing: boolean;
            /** @description `disk` or `sensor`. */
            kind: string;
            /** @description The path of the disk, or the name of the sensor. */
            name: string;
        };
        /** @description One head: a host that can serve pools. */
        Head: {
            /**
             * @description Disks that only this head has, by names for `groups`, such as `bay1`.
             * @default {}
             */
            disks?: {
                [key: string]: components["schemas"]["OwnDisk"];
            };
            /** @description How the other heads power it off. */
            fencing?: components["schemas"]["Fencing"] | null;
            /**
             * @description The fingerprint by which the other heads identify its leg-server: the output of `bulkhead leg-server
             *     fingerprint` there, 64 hex digits. Required where a pool has `groups`.
             */
            fingerprint?: string | null;
            /** @description Its interfaces, by network. */
            links: {
                [key: string]: components["schemas"]["Link"];
            };
            /**
             * @description Its memory, such as `64G`; compared with the needs of the pools after a takeover. Absent: as
             *     reported by the head.
             * @default null
             */
            memory?: string | null;
            /**
             * Format: uint32
             * @description Corosync's `nodeid`, 1 or more. Never changes, and is never reused for another host.
             */
            number: number;
        };
        /** @description Whether the facts of a head were gathered. */
        HeadAsked: {
            /** @description Whether it responded. */
            asked: boolean;
            /** @description Facts that are missing, in words. */
            unknown?: string[] | null;
            /** @description Addresses over which it was not reached, each with the reason; it was reached over a further one. */
            unreached: string[];
            /** @description Why the facts were not gathered. */
            why?: string | null;
        };
        /** @description A head, by the name that `uname -n` prints there, such as `left`. */
        HeadName: string;
        /** @description A head. */
        HeadView: {
            /** @description Whether it is the responding head. */
            here: boolean;
            /** @description Its name. */
            name: string;
            /** @description More about its state. */
            note?: string | null;
            /** @description `online`, `standby`, `pending` (a member of Corosync without Pacemaker), `offline`, `unclean` or `unknown`. */
            state: string;
        };
        /** @description A change that a pool has stored in its history. */
        HistoryEntry: {
            /**
             * Format: uint64
             * @description When, in seconds since 1970.
             */
            at_unix_s: number;
            /** @description More about it. */
            details?: string | null;
            /** @description The volume, file system or snapshot. */
            of?: string | null;
            /**
             * Format: uint64
             * @description Its transaction group.
             */
            txg?: number | null;
            /** @description The change, such as `create`, `snapshot` or `event scrub`; `command` if the details are a command line. */
            what: string;
        };
        /** @description A hold of a snapshot. */
        HoldView: {
            /**
             * Format: uint64
             * @description When it was added, in seconds since 1970.
             */
            since_unix_s: number;
            /** @description The snapshot. */
            snapshot: components["schemas"]["SnapshotName"];
            /** @description The name of the hold. */
            tag: string;
        };
        /** @description A server that is reached over HTTP. */
        HttpServer: {
            /** @description File on each head with the authorities that sign the server's certificate, PEM. Absent: those of the system. */
            authority_file?: string | null;
            /** @description File on each head that holds a bearer token, readable by root only. */
            token_file?: string | null;
            /** @description Its address, such as `https://alerts.example.org/bulkhead`. Redirections are not followed. */
            url: string;
        };
        /** @description A controller of virtual machines: a hypervisor, or the manager of several. */
        Hypervisor: {
            /**
             * Format: ip
             * @description Its address. Agents that discover it, such as `fence_xvm`, need none.
             */
            address?: string | null;
            /** @description The fence agent for it, such as `fence_virsh`, `fence_pve` or `fence_vmware_rest`. */
            agent: string;
            /** @description File on each head that holds a private key for SSH, for agents that log in by it. */
            key_file?: string | null;
            /**
             * @description Further parameters of the agent, by the names in its manual.
             * @default {}
             */
            parameters?: {
                [key: string]: string;
            };
            /** @description File on each head that holds the password, readable by root only. */
            password_file?: string | null;
            /**
             * Format: uint16
             * @description Its port, where it is not the agent's default.
             */
            port?: number | null;
            /** @description Name of an account that may power the virtual machines off. */
            user?: string | null;
        };
        /**
         * @description Value of `bulkhead:identity`. Created once from 16 random bytes; only a locally set value
         *     counts, so that a clone is not taken for its origin.
         */
        Identity: {
            /** @description EUI-64 with the local bit set: 16 hex digits. */
            eui: string;
            /** @description NAA designator: 16 hex digits; the first is 3, "locally assigned" (SPC-4, 7.8.6.6). */
            naa: string;
            /** @description Unit serial number: 18 characters. */
            serial: string;
        };
        /** @description An interrupted receive. */
        InterruptedView: {
            /** @description The volume itself is incomplete, and not only its next snapshot. */
            is_partial: boolean;
            /** @description The token with which the sender resumes; none if nothing was interrupted. */
            token?: string | null;
            /** @description The volume. */
            volume: string;
        };
        /**
         * @description An iSCSI qualified name, such as `iqn.2026-01.org.example:tank` (RFC 7143, section
         *     4.2.7), normalised to lower case.
         */
        IscsiName: string;
        /** @description Kerberos of the clients of a pool. */
        Kerberos: {
            /**
             * @description File on each head with the keys of the pool's services, such as `nfs/NAME@REALM` for a name of its addresses,
             *     readable by root only. It is read for each client.
             */
            keytab_file: string;
        };
        /**
         * @description A key in its external form. It is transferred as hex digits, since it can be any bytes. It is
         *     wiped when dropped, and never printed.
         */
        KeyBytes: string;
        /** @description Change the key of an encrypted dataset. */
        KeyChange: {
            /** @description The new key. */
            key: components["schemas"]["KeySettings"];
            /** @description Which. */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Create an encrypted parent: volumes that are created below it share its key */
        KeyCreate: {
            /** @description Its key. */
            key: components["schemas"]["KeySettings"];
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Let a dataset share its parent's key again. */
        KeyInherit: {
            /** @description Which. */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Load the key of a dataset. */
        KeyLoad: {
            /**
             * @description The key; none reads it at its configured location.
             * @default null
             */
            key?: components["schemas"]["KeyBytes"] | null;
            /**
             * @description Use this location once.
             * @default null
             */
            location?: components["schemas"]["KeyLocation"] | null;
            /** @description Which. */
            name: components["schemas"]["VolumeName"];
        };
        /** @description The location of a key. As text: `prompt`, `file:///PATH`, or `command:PROGRAM ARGUMENT...`. */
        KeyLocation: string;
        /** @description Requests about keys. */
        KeyRequest: "load_all" | {
            create: components["schemas"]["KeyCreate"];
        } | {
            unload: components["schemas"]["KeyUnload"];
        } | {
            status: components["schemas"]["KeyStatus"];
        } | {
            load: components["schemas"]["KeyLoad"];
        } | {
            change: components["schemas"]["KeyChange"];
        } | {
            inherit: components["schemas"]["KeyInherit"];
        };
        /** @description The key of a new dataset, or the new key of an existing one. */
        KeySettings: {
            /**
             * @description `aes-256-gcm` or another suite; none selects ZFS's default. Ignored in a change.
             * @default null
             */
            encryption?: string | null;
            /** @description `raw` (32 bytes), `hex` (64 digits) or `passphrase`. */
            format: string;
            /**
             * Format: uint64
             * @description Of a passphrase.
             * @default null
             */
            iterations?: number | null;
            /**
             * @description The key; none reads it at its location now.
             * @default null
             */
            key?: components["schemas"]["KeyBytes"] | null;
            /** @description Its location for later loads. */
            location: components["schemas"]["KeyLocation"];
        };
        /** @description Show the keys, whether they are loaded, and their locations */
        KeyStatus: {
            /**
             * @description Only of this dataset.
             * @default null
             */
            name?: components["schemas"]["VolumeName"] | null;
        };
        /** @description Unload a key; refused while a volume that needs it is in use */
        KeyUnload: {
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
        };
        /** @description The key of a dataset. */
        KeyView: {
            /** @description The dataset. */
            dataset: string;
            /** @description `aes-256-gcm`, ..., or `off`. */
            encryption: string;
            /** @description `raw`, `hex`, `passphrase`. */
            format?: string | null;
            /** @description Whether the key is loaded. */
            loaded: boolean;
            /** @description The locations of the key, in the order in which they are tried. */
            locations?: string[];
            /** @description The dataset that shares its key; none if the key is its own. */
            shared_with?: string | null;
        };
        /** @description The part of the network stack that lost packets. */
        Layer: "interface" | "queue" | "qdisc" | "processor" | "protocol" | "socket" | "kernel";
        /** @description The severity from which alerts are sent. */
        LeastSeverity: "info" | "warning" | "error";
        /** @description A copy of a device of a pool, which is not used. */
        LeftOutView: {
            /** @description Where it is. */
            device: string;
            /** @description Whether its data was given up by `pool confirm`. */
            is_abandoned?: boolean;
            /** @description The device that is used; none where the pool is opened without it. */
            used?: string | null;
        };
        /** @description A disk of a head, as `HEAD:DISK`. */
        Leg: string;
        /** @description Disks on different heads that are mirrored, or hold parity. */
        LegGroup: {
            /** @description Their redundancy. */
            kind: components["schemas"]["LegGroupKind"];
            /** @description The disks, as `HEAD:DISK`, such as `left:bay1`. */
            legs: components["schemas"]["Leg"][];
        };
        /** @description The redundancy of a group. */
        LegGroupKind: "mirror" | "raidz1" | "raidz2" | "raidz3";
        /** @description The state of a leg. */
        LegState: "current" | "failing" | "stale" | "copying" | "faulted" | "divergent";
        /** @description The third member of the record of legs with two heads. */
        LegWitness: {
            /** @description Where `bulkhead-witness` listens; more than one where it has links in several networks. */
            addresses: string[];
            /**
             * @description The fingerprint that `bulkhead-witness identity` prints there: SHA-256 of its certificate,
             *     64 hex digits.
             */
            fingerprint: string;
            /**
             * Format: uint32
             * @description Its number, which no head has. Never changes, and is never reused for another host.
             */
            number: number;
            /**
             * Format: uint16
             * @description Its TCP port.
             * @default 7071
             */
            port?: number;
        };
        /** @description How heads reach each other's disks. */
        Legs: {
            /**
             * Format: uint16
             * @description TCP port on which a head lends its disks.
             * @default 7072
             */
            lender_port?: number;
            /**
             * Format: uint16
             * @description TCP port on which the members exchange the records of legs.
             * @default 7071
             */
            member_port?: number;
            /**
             * @description Networks between the heads that carry the writes to other heads' disks, best first. Every head has a link in
             *     each. Name two: the second is used while the first fails.
             */
            networks: string[];
        };
        /** @description A head's interface in one network. */
        Link: {
            /** @description The head's own, fixed addresses here. */
            addresses: string[];
            /** @description Name of the interface, such as `ens1f0`. */
            interface: string;
        };
        /** @description A connection between two heads. */
        LinkView: {
            /** @description Pools with addresses for clients in the network. */
            client_pools?: string[];
            /** @description The head that reports the state. */
            from: string;
            /** @description The network. */
            network: string;
            /** @description `up`, `down` or `unknown`. */
            state: string;
            /** @description The other head. */
            to: string;
        };
        /** @description The locate light of a disk's slot. */
        Locate: {
            /** @description The path of the disk. */
            disk: string;
            /** @description Whether the light is on. */
            on: boolean;
        };
        /** @description A name and a password. */
        Login: {
            /** @description Their password. */
            password: string;
            /** @description The user. */
            user: string;
        };
        /** @description Mail over SMTP. */
        Mail: {
            /** @description File on each head with the authorities that sign the server's certificate, PEM. Absent: those of the system. */
            authority_file?: string | null;
            /** @description Address of the sender. */
            from: string;
            /** @description File on each head that holds the password of the account, readable by root only. */
            password_file?: string | null;
            /**
             * Format: uint16
             * @description Its port. Absent: 587 with `starttls`, 465 with `tls`, 25 with `none`.
             */
            port?: number | null;
            /** @description Name or address of the SMTP server. */
            server: string;
            /**
             * @description Encryption of the connection.
             * @default starttls
             */
            tls?: components["schemas"]["MailTls"];
            /** @description Addresses of the recipients. */
            to: string[];
            /** @description Account at the server. Absent: no login. */
            user?: string | null;
        };
        /** @description Encryption of a connection to an SMTP server. */
        MailTls: "starttls" | "tls" | "none";
        /** @description Rates of volumes and file systems, measured over about a second. */
        Metrics: {
            /**
             * Format: uint64
             * @description Time of the measurement, in milliseconds since 1970.
             */
            at_ms: number;
            /**
             * @description The shared file systems.
             * @default []
             */
            filesystems?: components["schemas"]["FileSystemRates"][];
            /** @description The exported volumes. */
            volumes: components["schemas"]["VolumeRates"][];
        };
        /** @description The destination of a move. */
        Move: {
            /** @description The head. */
            to: components["schemas"]["HeadName"];
            /**
             * @description Also if keys of currently served volumes are missing on that head.
             * @default false
             */
            without_keys?: boolean;
        };
        /** @description Bytes that a device reads and writes for a change. */
        MovedBytes: {
            /** @description The device, or the group. */
            device: string;
            /**
             * Format: uint64
             * @description Bytes that are read from it.
             */
            read: number;
            /**
             * Format: uint64
             * @description Bytes that are written to it.
             */
            written: number;
        };
        /** @description Export a volume; changes an export of the same name. */
        NbdExport: {
            /** @description The clients that may connect, in addition to loopback and Unix sockets. */
            access: components["schemas"]["AccessRule"];
            /** @description Export name; none selects the volume's name. */
            name?: string | null;
            /** @description Writes are refused. */
            read_only: boolean;
            /** @description Volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description A volume's NBD export. */
        NbdExportDocument: {
            /** @description The clients that may connect, in addition to loopback and Unix sockets. */
            access?: components["schemas"]["AccessRule"];
            /** @description Export name. */
            name: string;
            /** @description Writes are refused. */
            read_only?: boolean;
        };
        /** @description The request. */
        NbdList: {
            /** @description Only those in a dataset, or with such a name: `tank/vms`, `tank/web-*` or `web-*`. */
            only?: components["schemas"]["Selection"] | null;
        };
        /** @description Requests about NBD exports. */
        NbdRequest: {
            export: components["schemas"]["NbdExport"];
        } | {
            unexport: components["schemas"]["NbdUnexport"];
        } | {
            list: components["schemas"]["NbdList"];
        };
        /** @description Remove the export of a volume */
        NbdUnexport: {
            /**
             * @description Even though clients are connected: their connections are closed
             * @default false
             */
            in_use?: boolean;
            /** @description Only the export of this name */
            name?: string | null;
            /** @description The volume */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description An NBD export. */
        NbdView: {
            /** @description Name, mode and access. */
            export: components["schemas"]["NbdExportDocument"];
            /** @description Clients now. */
            sessions?: components["schemas"]["SessionView"][];
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description One network, one broadcast domain. */
        Network: {
            /**
             * Format: uint8
             * @description Number of the heartbeat link that runs here, 0 to 7; absent: none. Do not change the numbers
             *     of existing links: a change takes the link down.
             */
            heartbeat?: number | null;
            /**
             * Format: uint32
             * @description Largest packet that every interface and switch of the network supports, in bytes.
             * @default 1500
             */
            mtu?: number;
            /** @description Its address ranges, of either family, such as `10.77.1.0/24`. */
            subnets: string[];
        };
        /** @description A pool to be made. */
        NewPool: {
            /** @description Its devices. */
            groups: components["schemas"]["DeviceGroup"][];
            /** @description Its name. */
            name: components["schemas"]["PoolName"];
            /**
             * @description Devices that carry another pool's old label may be overwritten.
             * @default false
             */
            overwrite?: boolean;
            /**
             * @description Its properties.
             * @default {}
             */
            properties?: {
                [key: string]: string;
            };
            /**
             * @description Also start its server.
             * @default false
             */
            serve?: boolean;
        };
        /** @description A new snapshot, `POOL/NAME@SNAPSHOT`; or `POOL@SNAPSHOT`, which covers the whole pool. */
        NewSnapshot: string;
        /** @description A token to be made. */
        NewToken: {
            /**
             * @description The current password of its user.
             * @default null
             */
            current_password?: string | null;
            /**
             * Format: uint64
             * @description Its lifetime in seconds; unlimited by default.
             * @default null
             */
            expires_in_s?: number | null;
            /** @description Its purpose. */
            name: string;
            /**
             * @description Its role; by default that of its user.
             * @default null
             */
            role?: components["schemas"]["Role"] | null;
        };
        /** @description A user to be added. */
        NewUser: {
            /** @description The name. */
            name: string;
            /** @description Their password. */
            password: string;
            /** @description Their role. */
            role: components["schemas"]["Role"];
        };
        /** @description Why nothing can be changed while the cluster runs. */
        Obstacle: {
            /** @description The remedy. */
            mend: string;
            /** @description The condition that prevents the change. */
            what: string;
        };
        /** @description A file that is open or locked. */
        OpenFileView: {
            /**
             * Format: uint64
             * @description Number of locked ranges.
             */
            lock_count: number;
            /** @description Locked ranges; the first 50. */
            locks?: components["schemas"]["FileLockView"][];
            /**
             * Format: uint64
             * @description The number of its object, as `zdb` accepts it.
             */
            object: number;
            /** @description It is in a snapshot. */
            of_snapshot?: boolean;
            /**
             * Format: uint64
             * @description Number of opens.
             */
            open_count: number;
            /** @description Its opens; the first 50. */
            opens?: components["schemas"]["OpenView"][];
            /** @description Its path in the file system, if it was found in time. */
            path?: string | null;
            /** @description Ranges that clients are blocked on; the first 50. */
            waiting?: components["schemas"]["FileLockView"][];
        };
        /** @description Opens and locks of NFS clients in a file system. */
        OpenFilesView: {
            /** @description Clients with opens, locks or blocked lock requests there. */
            clients: components["schemas"]["FileClientView"][];
            /**
             * Format: uint64
             * @description Number of files that are open or locked.
             */
            file_count: number;
            /** @description The first 500 of them. */
            files: components["schemas"]["OpenFileView"][];
            /** @description The file system. */
            name: string;
        };
        /** @description An open of a file. */
        OpenView: {
            /** @description The client that holds it. */
            client: string;
            /** @description Other clients cannot open it for reading. */
            denies_read?: boolean;
            /** @description Other clients cannot open it for writing. */
            denies_write?: boolean;
            /** @description For reading. */
            read: boolean;
            /** @description For writing. */
            write: boolean;
        };
        /** @description A background operation. It continues if the client disconnects. */
        Operation: {
            /**
             * Format: uint64
             * @description The time of its end, in milliseconds since 1970.
             */
            ended_at_ms?: number | null;
            /** @description The failure. */
            failure?: components["schemas"]["Failure"] | null;
            /** @description Identifies the operation in requests. */
            id: string;
            /** @description `move`, `apply`, `drill` or `request`. */
            kind: string;
            /** @description Its output, the newest line last. */
            progress: string[];
            /** @description The result. */
            result?: components["schemas"]["Outcome"] | null;
            /**
             * Format: uint64
             * @description When it began, in milliseconds since 1970.
             */
            started_at_ms: number;
            /** @description `running`, `done`, `failed` or `canceled`. */
            state: string;
            /** @description The action, in words. */
            title: string;
            /** @description The user that started it. */
            who: string;
        };
        /** @description The result of an operation. */
        Outcome: components["schemas"]["Answer"] | components["schemas"]["DrillsReport"] | components["schemas"]["ApplianceApplied"];
        /** @description One outlet of a power distribution unit. */
        Outlet: {
            /** @description Number or name of the outlet. */
            outlet: string;
            /** @description Name of the unit in `pdus`. */
            pdu: string;
        };
        /** @description The overview. */
        Overview: {
            /** @description Conditions that need attention, the worst first. */
            alerts: components["schemas"]["Alert"][];
            /** @description The appliance, if this head has an appliance file. */
            appliance?: string | null;
            /**
             * Format: uint64
             * @description Time of the state, in milliseconds since 1970.
             */
            at_ms: number;
            /** @description Faults that the hardware of the heads reports. */
            hardware_faults?: components["schemas"]["HardwareFault"][];
            /** @description The heads. */
            heads: components["schemas"]["HeadView"][];
            /** @description The latest start of a pool's service. */
            last_takeover?: components["schemas"]["Takeover"] | null;
            /** @description The connections between heads. */
            links: components["schemas"]["LinkView"][];
            /** @description Active and recent background operations. */
            operations: components["schemas"]["Operation"][];
            /** @description The pools. */
            pools: components["schemas"]["PoolOverview"][];
            /**
             * @description The receivers of messages about alerts.
             * @default []
             */
            receivers?: components["schemas"]["ReceiverView"][];
            /**
             * @description The safeguards that a takeover depends on.
             * @default {
             *       "fence_devices": [],
             *       "has_quorum": null,
             *       "no_quorum_since_ms": null,
             *       "power_offs": [],
             *       "witness": null
             *     }
             */
            safeguards?: components["schemas"]["Safeguards"];
            /** @description The responding head. */
            this_head: string;
            /** @description Version of Bulkhead. */
            version: string;
        };
        /** @description A disk that only one head has. */
        OwnDisk: {
            /**
             * Format: uint32
             * @description The number by which heads and witness identify it. Each disk of the appliance has its own; it belongs to the
             *     disk, never changes, and is never reused.
             */
            number: number;
            /** @description Its path on the head, such as `/dev/disk/by-id/...`. */
            path: string;
        };
        /** @description A kind of owner that space is charged to. */
        OwnerKind: "user" | "group" | "project";
        /** @description The space and the quotas of a user, group or project. */
        OwnerView: {
            /**
             * Format: uint64
             * @description Its number.
             */
            id: number;
            /** @description Its name, if the host of the pool has one. */
            name?: string | null;
            /**
             * Format: uint64
             * @description The quota of objects.
             */
            object_quota?: number | null;
            /**
             * Format: uint64
             * @description Files, directories and the like, if they are counted.
             */
            objects?: number | null;
            /** @description Its kind. */
            of: components["schemas"]["OwnerKind"];
            /**
             * Format: uint64
             * @description The quota of bytes.
             */
            quota?: number | null;
            /**
             * Format: uint64
             * @description Bytes on disk.
             */
            used: number;
        };
        /** @description The space and the quotas of users, groups or projects in a file system. */
        OwnersView: {
            /**
             * Format: uint64
             * @description Number of further owners, which use no more than these.
             * @default 0
             */
            left_out?: number;
            /** @description The file system, or its snapshot. */
            name: string;
            /** @description The kind of the owners. */
            of: components["schemas"]["OwnerKind"];
            /** @description The owners: without another order, those that use the most bytes first; at most 10,000. */
            owners: components["schemas"]["OwnerView"][];
        };
        /** @description A partition. */
        Partition: {
            /** @description The detected contents: `ext4`, `xfs`, `ntfs`, `LUKS`, `LVM`, `md`, `ZFS`, ... */
            contents?: string | null;
            /**
             * Format: uint32
             * @description The number of devices that belong together, for contents that span devices.
             */
            devices?: number | null;
            /** @description The label of a file system; the name of a pool, a volume group or an array. */
            label?: string;
            /** @description Its name in a GPT. */
            name?: string;
            /** @description Further facts, in words. */
            notes?: string[];
            /**
             * Format: uint32
             * @description Its number, as Linux counts.
             */
            number: number;
            /**
             * Format: uint64
             * @description Bytes.
             */
            size: number;
            /**
             * Format: uint64
             * @description Where it begins, in bytes.
             */
            start: number;
            /** @description Its type: a GUID of a GPT, two hex digits of an MBR, or empty. */
            type: string;
            /** @description The UUID or serial number of the contents. */
            uuid?: string;
            /** @description The logical volumes of a volume group. */
            volumes?: string[];
        };
        /** @description A power distribution unit. */
        Pdu: {
            /**
             * Format: ip
             * @description Its address.
             */
            address: string;
            /** @description The fence agent for the model, such as `fence_apc_snmp`. */
            agent: string;
            /**
             * @description Further parameters of the agent, by the names in its manual.
             * @default {}
             */
            parameters?: {
                [key: string]: string;
            };
            /** @description File on each head that holds the password, readable by root only. */
            password_file?: string | null;
            /**
             * Format: uint16
             * @description Its port, where it is not the agent's default.
             */
            port?: number | null;
            /** @description Name of an account that may switch outlets. */
            user?: string | null;
        };
        /** @description A pool that may replicate into this one. */
        Peer: {
            /** @description The volume that it may write, or the parent of those that it may write. */
            below: components["schemas"]["VolumeName"];
            /**
             * @description It may send file systems, too. Only for senders that are trusted with this head: ZFS validates little of the
             *     contents of their streams.
             */
            files?: boolean;
            /** @description Its certificate. */
            fingerprint: components["schemas"]["Fingerprint"];
            /**
             * @description The retention here, whatever the sender requests.
             * @default {
             *       "days": 7,
             *       "newest": 8
             *     }
             */
            retention?: components["schemas"]["Retention"];
        };
        /** @description Permissions, in octal as in `chmod`. */
        Permissions: string;
        /** @description The position of a finding. */
        Place: {
            /** @description The key, such as `heads.left.fencing.delay_s`; empty for the file as a whole. */
            key: string;
            /**
             * Format: uint32
             * @description Its line, from 1, or that of the table where it is missing.
             */
            line?: number | null;
        };
        /** @description The consequences of a change of a pool's devices. The pool is not changed. In bytes and seconds. */
        PlanView: {
            /** @description `add`, `attach`, `remove`, `replace` or `expand`. */
            change: string;
            /** @description The command that makes the change. */
            command: string;
            /**
             * Format: uint64
             * @description Estimated duration.
             */
            duration_s?: number | null;
            /**
             * Format: uint64
             * @description The same after.
             */
            full_percent_after?: number | null;
            /**
             * Format: uint64
             * @description Fill of the usable space before, in percent.
             */
            full_percent_before?: number | null;
            /** @description Groups of data, before and after. */
            groups: components["schemas"]["GroupChange"][];
            /** @description The redundancy until the change is complete, in sentences. */
            meanwhile: string[];
            /** @description Bytes that devices read and write for it. A group of a removal is named as a whole. */
            moves: components["schemas"]["MovedBytes"][];
            /** @description Further consequences, in sentences. */
            notes?: string[];
            /** @description The pool. */
            pool: string;
            /** @description The measured rate that `duration_s` is based on; none if no comparable work was measured. */
            rate?: components["schemas"]["RateView"] | null;
            /** @description Why the change would be refused, in a sentence with the remedy. */
            refused?: string | null;
            /**
             * Format: uint64
             * @description Bytes that the progress of the work counts: each block once, with parity where the work counts parity.
             */
            total: number;
            /**
             * Format: uint64
             * @description The same after.
             */
            usable_after?: number | null;
            /**
             * Format: uint64
             * @description Usable space of the pool before, if known.
             */
            usable_before?: number | null;
        };
        /** @description The result of a plan; an invalid file has no plan. */
        Planned: components["schemas"]["AppliancePlan"] | components["schemas"]["ApplianceCheckReport"];
        /** @description A change of the devices of a pool. */
        PlannedChange: {
            add: {
                /** @description The devices to add. */
                groups: components["schemas"]["DeviceGroup"][];
            };
        } | {
            attach: {
                /** @description Device or raidz group of the pool. */
                existing: string;
                /** @description Device to add. */
                new: string;
            };
        } | {
            remove: {
                /** @description Device or group of the pool. */
                device: string;
            };
        } | {
            replace: {
                /** @description Its replacement. */
                new: string;
                /** @description Device of the pool. */
                old: string;
            };
        } | {
            expand: {
                /** @description Device of the pool. */
                device: string;
            };
        };
        /** @description One pool, served by one head at a time. */
        Pool: {
            /** @description Addresses that move with it. Clients connect to these only. */
            addresses: components["schemas"]["PoolAddress"][];
            /**
             * @description Memory for its cache, such as `16G`.
             * @default null
             */
            arc?: string | null;
            /**
             * @description Disks of heads that cache reads, in addition to `groups`, as `HEAD:DISK`. No data is lost with one. Not possible
             *     yet: only its own head reads one.
             * @default []
             */
            cache?: components["schemas"]["Leg"][];
            /**
             * @description How its disks are protected from a head that lost the pool: `auto`, `reservations` or
             *     `locks`.
             * @default auto
             */
            claims?: components["schemas"]["Claims"];
            /**
             * @description Its devices, by names that are the same on every head, such as `/dev/disk/by-id/...`. Only these are searched.
             *     For disks that all heads reach; a pool has either these or `groups`.
             * @default []
             */
            disks?: string[];
            /**
             * @description Its devices, where each head has disks of its own: groups of disks on different heads that are mirrored, or hold
             *     parity.
             * @default []
             */
            groups?: components["schemas"]["LegGroup"][];
            /** @description The heads that may serve it, best first after its home. Absent: all. */
            heads?: string[] | null;
            /** @description The head that it prefers at a start. It does not move back there automatically. */
            home?: string | null;
            /** @description Kerberos for its clients, which use it where a share requires it. Absent: none. */
            kerberos?: components["schemas"]["Kerberos"] | null;
            /**
             * @description Devices for its intent log, in addition to `groups`. Mirrors over heads: acknowledged writes are stored there
             *     for seconds.
             * @default []
             */
            log?: components["schemas"]["LegGroup"][];
            /** @description The same as `tls.nbd`. */
            nbd_tls?: components["schemas"]["Tls"] | null;
            /**
             * Format: uint32
             * @description The number by which heads and witness identify it, where it has `groups`. Never changes, and is never reused for
             *     another pool.
             */
            number?: number | null;
            /** @description Where other appliances replicate into it. Absent: nowhere. */
            replication?: components["schemas"]["Replication"] | null;
            /**
             * Format: uint32
             * @description Smallest unit of its writes, in bytes: 2 to the power of ZFS's `ashift`.
             * @default 4096
             */
            sector_bytes?: number;
            /**
             * @description TLS for its clients, by the name of their protocol, such as `nbd`. It is then required; for `nfs` where a share
             *     requires it. A protocol that is not named is in the clear.
             * @default {}
             */
            tls?: {
                [key: string]: components["schemas"]["Tls"];
            };
        };
        /** @description Widen the pool. */
        PoolAdd: {
            /** @description The devices to add. */
            groups: components["schemas"]["DeviceGroup"][];
            /**
             * @description Even if the new groups have less redundancy than those of the pool.
             * @default false
             */
            mismatched?: boolean;
            /**
             * @description Even if it has the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
        };
        /** @description Add a third head to the members of a pool's record of legs; it can serve the pool from then on. */
        PoolAddHead: {
            /** @description The head, by its name in `legs.toml` of all heads. */
            head: string;
        };
        /** @description An address that moves with a pool. */
        PoolAddress: {
            /**
             * Format: ip
             * @description The address, IPv4 or IPv6.
             */
            address: string;
            /** @description The network it belongs to. */
            network: string;
        };
        /** @description Mirror `existing` to `new`, or widen a mirror. */
        PoolAttach: {
            /**
             * @description Device of the pool. A leg on one of several heads by its name in `pool status`, such as
             *     `left:/dev/disk/by-id/x`.
             */
            existing: string;
            /** @description Device to add. A leg by its name in `legs.toml` of each head. */
            new: string;
            /**
             * @description Even if it has the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
        };
        /** @description Clear errors and resume a suspended pool. */
        PoolClear: {
            /** @description One device, or all. */
            device?: string | null;
            /**
             * @description Allow a suspended pool to resume without the devices that are still missing, although they may hold acknowledged
             *     data that the remaining devices do not have. That data is lost then.
             * @default false
             */
            missing_devices_are_not_newer?: boolean;
        };
        /** @description Drain the sessions and export; a server exits. */
        PoolClose: {
            /**
             * @description Even though clients are connected: their sessions are closed.
             * @default false
             */
            in_use?: boolean;
        };
        /** @description The bound on the rate of copies. */
        PoolCopyRate: {
            /**
             * @description The new bound: `unlimited`, or bytes a second, such as `50M`; none: the present bound is reported.
             * @default null
             */
            max?: components["schemas"]["RateMax"] | null;
        };
        /** @description Destroy the pool; a server exits. The caller has checked the confirmation. */
        PoolDestroy: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /**
             * @description Even though clients are connected: their sessions are closed.
             * @default false
             */
            in_use?: boolean;
        };
        /** @description Take one side off a mirror. */
        PoolDetach: {
            /** @description Device of the pool. */
            device: string;
            /** @description Also if a device of its group has failed, and no redundancy is left then. */
            without_redundancy?: boolean;
        };
        /** @description Discard the contents of a leg with a divergent history: it is resynchronized in full. */
        PoolDiscardLeg: {
            /** @description The leg, by its name in `pool status`. */
            leg: string;
        };
        /** @description A streamed event of a pool. */
        PoolEvent: {
            /** @description The event. */
            event: components["schemas"]["Event"];
            /** @description The pool. */
            pool: string;
        };
        /** @description The events of the pool. */
        PoolEvents: {
            /**
             * Format: uint64
             * @description Only events with a higher number.
             */
            after?: number | null;
        };
        /** @description A pool that was found, with the head that serves it. */
        PoolFound: {
            /**
             * Format: uint64
             * @description Allocated bytes, if the pool is open.
             */
            allocated?: number | null;
            /** @description Devices with its labels. */
            devices: string[];
            /** @description Its GUID, in decimal. */
            guid: string;
            /** @description Health, if the pool is open. */
            health?: string | null;
            /** @description The last host. */
            last_host?: string | null;
            /** @description Copies of its devices, which are not used. */
            left_out?: components["schemas"]["LeftOutView"][];
            /** @description Devices in its labels that were not found. */
            missing?: string[];
            /** @description Its name. */
            name: components["schemas"]["PoolName"];
            /** @description The head that serves it. */
            served_by?: string | null;
            /** @description The other head that serves it, in the list of the command line. */
            served_elsewhere?: string | null;
            /**
             * Format: uint64
             * @description Capacity, if the pool is open.
             */
            size?: number | null;
            /** @description The usable space, if the pool is open. */
            space?: components["schemas"]["PoolSpace"] | null;
            /**
             * @description `served`, `unserved` (no head serves this pool of the appliance, and its disks are not found here), `unknown`
             *     (the cluster does not respond here), `exported`, `active`, `destroyed` or `damaged`.
             */
            state: string;
            /** @description Devices with an ambiguous identity: the pool is not opened until one is chosen. */
            unclear?: string[];
        };
        /** @description Read properties of the pool. */
        PoolGet: {
            /** @description Their names, each one or several, separated by commas; none or `all` means all. */
            names: string[];
        };
        /** @description Show the changes that the pool itself has stored, the oldest first */
        PoolHistory: {
            /**
             * Format: uint32
             * @description At most so many, the newest ones.
             * @default null
             */
            limit?: number | null;
        };
        /** @description A leg. */
        PoolLeg: {
            /**
             * Format: uint64
             * @description Bytes that were copied to it since it returned.
             */
            copied?: number | null;
            /** @description The owner's name of it, as [`super::answer::DeviceView::name`]. */
            device: string;
            /**
             * Format: uint64
             * @description The number by which the members identify it.
             */
            disk: number;
            /**
             * Format: uint
             * @description The index of its group, from 0.
             */
            group: number;
            /** @description The head that has it. */
            head: string;
            /**
             * Format: uint64
             * @description The first transaction group of which data is missing.
             */
            lacks_since_group?: number | null;
            /**
             * Format: uint64
             * @description Bytes that are still missing, at most.
             */
            left?: number | null;
            /** @description Its head and its path there, such as `left:/dev/disk/by-id/x`. */
            name: string;
            /** @description Where it is on that head. */
            path: string;
            /**
             * Format: uint64
             * @description Remaining seconds of the resynchronization at its present speed, at most.
             */
            remaining_s?: number | null;
            /**
             * Format: uint64
             * @description Since when, in milliseconds since 1970, if an owner observed the change.
             */
            since_ms?: number | null;
            /** @description Its state. */
            state: components["schemas"]["LegState"];
            /**
             * Format: uint64
             * @description When a faulted one is retried, in milliseconds since 1970.
             */
            tried_again_ms?: number | null;
        };
        /** @description A member of the record: a head, or the witness. */
        PoolLegMember: {
            /** @description Whether it responds to the pool's owner. */
            answers: boolean;
            /**
             * @description Whether its removal is pending: the other head has not agreed to it yet.
             * @default false
             */
            is_leaving?: boolean;
            /** @description Whether it stores the record only, without a disk. */
            is_witness: boolean;
            /** @description Its name. */
            name: string;
            /** @description Why not. */
            why?: string | null;
        };
        /** @description The legs of a pool, and the members of their record. */
        PoolLegs: {
            /**
             * Format: uint64
             * @description The epoch of the newest record: it grows with every owner.
             */
            epoch: number;
            /** @description In the order of `legs.toml`. */
            legs: components["schemas"]["PoolLeg"][];
            /** @description Those of the record, by name. */
            members: components["schemas"]["PoolLegMember"][];
            /** @description Members that `legs.toml` names but the record does not: they have no vote. */
            not_on_record?: string[];
            /** @description The failures that the pool survives now. */
            survives?: components["schemas"]["PoolSurvives"] | null;
            /**
             * @description Whether writes are paused until the failure of a leg is on record, or until the last leg
             *     returns.
             */
            writes_wait: boolean;
        };
        /**
         * @description I/O of a pool and its devices since the pool was opened. All counters only grow: the difference between two samples
         *     is the I/O in between.
         */
        PoolLoad: {
            /**
             * Format: uint64
             * @description Nanoseconds of counting, on a monotonic clock: the interval between two samples.
             */
            counted_ns: number;
            /** @description The names of legs, by the names of their devices. */
            leg_names?: {
                [key: string]: string;
            };
            /**
             * Format: uint32
             * @description The process that has the pool open. The counters start again when another process opens it.
             */
            pid: number;
            /** @description Whether all I/O is paused because devices are missing. */
            suspended: boolean;
            /** @description The pool as a whole; its members are the groups and devices. */
            whole: components["schemas"]["DeviceLoad"];
        };
        /** @description The filter of the server's log. */
        PoolLogLevel: {
            /**
             * @description The new filter; none: the present one is reported.
             * @default null
             */
            filter?: string | null;
        };
        /** @description A pool, such as `tank`. */
        PoolName: string;
        /** @description Stop using a device. */
        PoolOffline: {
            /** @description Device of the pool. */
            device: string;
            /** @description Until the next import only. */
            temporary: boolean;
            /** @description Also if a device of its group has failed, and no redundancy is left then. */
            without_redundancy?: boolean;
        };
        /** @description Use a device again. */
        PoolOnline: {
            /**
             * @description Device of the pool. A leg on one of several heads by its name in `pool status`, such as
             *     `left:/dev/disk/by-id/x`.
             */
            device: string;
            /**
             * @description Also use all of its size, if it is larger than when it joined. The group grows when this is done for each of its
             *     devices.
             */
            expand?: boolean;
        };
        /** @description A pool in the overview. */
        PoolOverview: {
            /** @description Its addresses for clients. */
            addresses: string[];
            /** @description When it will be full, if its fill is recorded. */
            forecast?: components["schemas"]["ForecastView"] | null;
            /** @description The heads that may serve it. */
            heads: string[];
            /** @description The head that should serve it. */
            home?: string | null;
            /** @description Its name. */
            name: string;
            /**
             * Format: uint64
             * @description NBD exports in it.
             */
            nbd_count: number;
            /** @description Its state, if its server responds. */
            pool?: components["schemas"]["PoolStatus"] | null;
            /** @description Exports that cannot be served, in sentences. */
            problems: string[];
            /** @description The head that serves it. */
            served_by?: string | null;
            /**
             * Format: uint64
             * @description Number of connected clients.
             */
            session_count: number;
            /**
             * Format: uint64
             * @description Since when its server responds slowly, in milliseconds since 1970; the state of the pool is then an earlier one.
             */
            slow_since_ms?: number | null;
            /** @description `served`, `stopped`, `failed` or `unreachable`. */
            state: string;
            /**
             * Format: uint64
             * @description iSCSI targets in it.
             */
            target_count: number;
            /**
             * Format: uint64
             * @description Running time of its server, in seconds.
             */
            uptime_s?: number | null;
            /**
             * Format: uint64
             * @description Volumes in it.
             */
            volume_count: number;
        };
        /** @description Show the consequences of a change of the devices without making it. */
        PoolPlan: {
            /** @description The change. */
            change: components["schemas"]["PlannedChange"];
        };
        /** @description The distribution of client reads over the legs of mirrors. */
        PoolReadBalancing: {
            /**
             * @description The new mode; none: the present one is reported.
             * @default null
             */
            mode?: components["schemas"]["ReadBalancing"] | null;
        };
        /** @description Evacuate and remove a device. */
        PoolRemove: {
            /** @description Device of the pool. */
            device: string;
        };
        /** @description Replace `old` by `new`. */
        PoolReplace: {
            /**
             * @description Its replacement; none means that there is a new disk at the same path. A leg by its present name in `legs.toml`
             *     of each head.
             */
            new?: string | null;
            /**
             * @description Device of the pool. A leg on one of several heads by its name in `pool status`, such as
             *     `left:/dev/disk/by-id/x`.
             */
            old: string;
            /**
             * @description Even if it has the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
        };
        /** @description Replace a bad disk by a new one, guided. A repeated request resumes. */
        PoolReplaceDisk: {
            /** @description The bad disk; none selects the only bad one. */
            device?: string | null;
            /**
             * @description Even if it has the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
            /**
             * @description Perform it, and respond when the new disk is current; otherwise show the plan.
             * @default false
             */
            perform?: boolean;
            /** @description Its replacement; none selects an unused disk that fits. */
            with?: string | null;
        };
        /** @description Requests about the pool. */
        PoolRequest: ("status" | "iostat" | "export") | {
            close: components["schemas"]["PoolClose"];
        } | {
            destroy: components["schemas"]["PoolDestroy"];
        } | {
            clear: components["schemas"]["PoolClear"];
        } | {
            attach: components["schemas"]["PoolAttach"];
        } | {
            detach: components["schemas"]["PoolDetach"];
        } | {
            discard_leg: components["schemas"]["PoolDiscardLeg"];
        } | {
            set_witness: components["schemas"]["PoolSetWitness"];
        } | {
            add_head: components["schemas"]["PoolAddHead"];
        } | {
            replace: components["schemas"]["PoolReplace"];
        } | {
            replace_disk: components["schemas"]["PoolReplaceDisk"];
        } | {
            online: components["schemas"]["PoolOnline"];
        } | {
            offline: components["schemas"]["PoolOffline"];
        } | {
            add: components["schemas"]["PoolAdd"];
        } | {
            remove: components["schemas"]["PoolRemove"];
        } | {
            get: components["schemas"]["PoolGet"];
        } | {
            history: components["schemas"]["PoolHistory"];
        } | {
            plan: components["schemas"]["PoolPlan"];
        } | {
            set: components["schemas"]["PoolSet"];
        } | {
            copy_rate: components["schemas"]["PoolCopyRate"];
        } | {
            read_balancing: components["schemas"]["PoolReadBalancing"];
        } | {
            log_level: components["schemas"]["PoolLogLevel"];
        } | {
            events: components["schemas"]["PoolEvents"];
        } | {
            scrub: components["schemas"]["PoolScrub"];
        } | {
            scrub_schedule: components["schemas"]["PoolScrubSchedule"];
        };
        /** @description Check (and repair) every block. */
        PoolScrub: {
            /** @description The action. */
            action: components["schemas"]["ScrubAction"];
            /** @description Respond when the scrub is complete. */
            wait: boolean;
        };
        /** @description Scrub on a schedule, or only on request. */
        PoolScrubSchedule: {
            /** @description The schedule; none removes it. */
            when?: components["schemas"]["When"] | null;
        };
        /** @description Change properties of the pool. */
        PoolSet: {
            /** @description New values. */
            properties: {
                [key: string]: string;
            };
        };
        /** @description Add a witness to the members of a pool's record of legs, or remove it. */
        PoolSetWitness: {
            /** @description The witness, by its name in `legs.toml` of both heads; none for both heads alone. */
            witness?: string | null;
        };
        /** @description Space of a pool. In bytes. */
        PoolSpace: {
            /**
             * Format: uint64
             * @description Space that is available for snapshots, and for volumes beyond their reservations.
             */
            available: number;
            /**
             * Format: uint64
             * @description How full it is: including reservations, if a volume depends on the available space, else by the used space.
             */
            full_percent: number;
            /**
             * @description Whether a quota limits any of its datasets.
             * @default false
             */
            has_quota?: boolean;
            /**
             * Format: uint64
             * @description Bytes that clients may still write to volumes, but that neither a reservation nor the available space covers.
             */
            overcommitted: number;
            /**
             * Format: uint64
             * @description The sizes of all volumes.
             */
            promised: number;
            /**
             * Format: uint64
             * @description Writes of clients that were refused for lack of space since the server started.
             * @default 0
             */
            refused_writes?: number;
            /**
             * @description Whether some were refused recently.
             * @default false
             */
            refuses?: boolean;
            /**
             * Format: uint64
             * @description Space that is reserved, but not written yet.
             */
            reserved: number;
            /**
             * Format: uint64
             * @description The capacity of its datasets.
             */
            usable: number;
            /**
             * Format: uint64
             * @description Used space: contents of volumes, and blocks that only snapshots refer to.
             */
            written: number;
        };
        /** @description A pool in detail. */
        PoolStatus: {
            /** @description Recommended actions, in this order; empty when the pool is healthy. */
            advice: components["schemas"]["Advice"][];
            /**
             * Format: uint64
             * @description Allocated bytes of it.
             */
            allocated: number;
            /** @description The bound on the rate of scrubs and resilvers in bytes a second, if there is one. */
            copy_rate_max?: components["schemas"]["RateMax"] | null;
            /** @description Data damaged beyond repair, the first hundred ranges. */
            damaged?: components["schemas"]["DamageView"][];
            /** @description Savings of deduplication, if blocks were written with it. */
            dedup?: components["schemas"]["DedupView"] | null;
            /** @description The tree of devices. */
            devices: components["schemas"]["DeviceView"][];
            /**
             * Format: uint64
             * @description Fragmentation of the free space in percent, if known.
             */
            fragmentation_percent?: number | null;
            /**
             * Format: uint64
             * @description Free bytes of it.
             */
            free: number;
            /** @description Its GUID, in decimal. */
            guid: string;
            /** @description `ONLINE`, `DEGRADED`, `FAULTED`, `SUSPENDED`, ... */
            health: string;
            /** @description Copies of its devices that were found when it was opened, and are not used. */
            left_out?: components["schemas"]["LeftOutView"][];
            /** @description Its legs, if they are on several heads and a server has it open. */
            legs?: components["schemas"]["PoolLegs"] | null;
            /** @description Its name. */
            name: string;
            /** @description The distribution of client reads over the legs of mirrors, unless it is the default, `prefer-local`. */
            read_balancing?: components["schemas"]["ReadBalancing"] | null;
            /** @description Summary of its replication to other pools. */
            replication?: components["schemas"]["ReplicationGlance"][];
            /** @description The last or running scrub or resilver. */
            scan?: components["schemas"]["ScanView"] | null;
            /** @description The schedule of scrubs, if there is one. */
            scrub_schedule?: components["schemas"]["ScrubScheduleView"] | null;
            /** @description Options that its server needs, so that all clients reach it; for a pool without a server. */
            server_options?: string[];
            /**
             * Format: uint64
             * @description Capacity of the devices, with parity. [`Self::space`] is the usable space.
             */
            size: number;
            /** @description The usable space; none until it was computed. */
            space?: components["schemas"]["PoolSpace"] | null;
            /** @description Whether all I/O is paused because devices are missing. */
            suspended: boolean;
            /** @description Long work on its devices that is not complete: scrub, resilver, removal, expansion. */
            work?: components["schemas"]["WorkView"][];
            /** @description Since when writes are paused, and why, if they are. */
            writes_wait?: components["schemas"]["WritesWait"] | null;
        };
        /** @description A pool that was found on devices. */
        PoolSummary: {
            /**
             * Format: uint64
             * @description Allocated bytes, if the pool is open.
             */
            allocated?: number | null;
            /** @description Devices with its labels. */
            devices: string[];
            /** @description Its GUID, in decimal. */
            guid: string;
            /** @description Health, if the pool is open. */
            health?: string | null;
            /** @description The last host. */
            last_host?: string | null;
            /** @description Copies of its devices, which are not used. */
            left_out?: components["schemas"]["LeftOutView"][];
            /** @description Devices in its labels that were not found. */
            missing?: string[];
            /** @description Its name. */
            name: components["schemas"]["PoolName"];
            /** @description The other head that serves it, in the list of the command line. */
            served_elsewhere?: string | null;
            /**
             * Format: uint64
             * @description Capacity, if the pool is open.
             */
            size?: number | null;
            /** @description The usable space, if the pool is open. */
            space?: components["schemas"]["PoolSpace"] | null;
            /**
             * @description `served`, `unserved` (no head serves this pool of the appliance, and its disks are not found here), `unknown`
             *     (the cluster does not respond here), `exported`, `active`, `destroyed` or `damaged`.
             */
            state: string;
            /** @description Devices with an ambiguous identity: the pool is not opened until one is chosen. */
            unclear?: string[];
        };
        /** @description The failures that a pool survives now, by its current legs and the members that respond. */
        PoolSurvives: {
            /**
             * @description Heads that could not serve the pool, each with the reason: the cluster would not start it there, or too few members
             *     respond to the head.
             */
            cannot_serve?: {
                [key: string]: string;
            };
            /**
             * Format: uint
             * @description Any so many disks may fail.
             */
            disks: number;
            /**
             * Format: uint
             * @description When one of `heads` is lost, any so many disks may fail in addition.
             */
            disks_without_head: number;
            /** @description Each of these heads may be lost alone, with all of its disks. */
            heads: string[];
            /** @description The loss of any of these heads stops the pool. */
            not_heads: string[];
            /** @description It is unknown whether the pool survives the loss of any of these heads. */
            uncertain_heads?: string[];
            /** @description Heads of which it is unknown whether they could serve the pool, each with the reason. */
            unknown?: {
                [key: string]: string;
            };
        };
        /** @description A pool that an administrator creates, once, on one head. */
        PoolToMake: {
            /** @description The head where the command is run: its home. */
            head: components["schemas"]["HeadName"];
            /** @description Which. */
            pool: components["schemas"]["PoolName"];
            /** @description Arguments of the command. */
            words: string[];
        };
        /** @description Listen at these further addresses. */
        PortalAdd: {
            /**
             * @description Addresses of iSCSI: `ADDRESS:PORT`.
             * @default []
             */
            iscsi?: {
                /** @description Address and port. */
                address: string;
                /**
                 * Format: uint16
                 * @description Portal group tag, from 1 on.
                 * @default 1
                 */
                group?: number;
            }[];
            /**
             * @description Also at addresses that this host does not have yet.
             * @default false
             */
            may_come?: boolean;
            /**
             * @description Addresses of NBD: `ADDRESS:PORT` or `unix:/PATH`.
             * @default []
             */
            nbd?: string[];
            /**
             * @description Addresses of NFS: `ADDRESS:PORT`.
             * @default []
             */
            nfs?: string[];
        };
        /** @description Stop listening at these addresses. */
        PortalRemove: {
            /**
             * @description Even though clients are connected through them: their sessions are closed.
             * @default false
             */
            in_use?: boolean;
            /**
             * @description Addresses of iSCSI: `ADDRESS:PORT`.
             * @default []
             */
            iscsi?: string[];
            /**
             * @description Addresses of NBD: `ADDRESS:PORT` or `unix:/PATH`.
             * @default []
             */
            nbd?: string[];
            /**
             * @description Addresses of NFS: `ADDRESS:PORT`.
             * @default []
             */
            nfs?: string[];
        };
        /** @description Requests about portals. */
        PortalRequest: "list" | {
            add: components["schemas"]["PortalAdd"];
        } | {
            remove: components["schemas"]["PortalRemove"];
        } | {
            set: components["schemas"]["PortalSet"];
        };
        /** @description Listen at exactly these addresses. Some may become available later, with a takeover. */
        PortalSet: {
            /**
             * @description Even though clients are connected through a removed portal: their sessions are closed.
             * @default false
             */
            in_use?: boolean;
            /**
             * @description Addresses of iSCSI: `ADDRESS:PORT`.
             * @default []
             */
            iscsi?: {
                /** @description Address and port. */
                address: string;
                /**
                 * Format: uint16
                 * @description Portal group tag, from 1 on.
                 * @default 1
                 */
                group?: number;
            }[];
            /**
             * @description Addresses of NBD: `ADDRESS:PORT` or `unix:/PATH`.
             * @default []
             */
            nbd?: string[];
            /**
             * @description Addresses of NFS: `ADDRESS:PORT`.
             * @default []
             */
            nfs?: string[];
        };
        /** @description An address that a server listens at. */
        PortalView: {
            /** @description `ADDRESS:PORT`, or `unix:/PATH`. */
            address: string;
            /**
             * Format: uint64
             * @description Sessions through it.
             */
            clients: number;
            /**
             * Format: uint16
             * @description Its group, where clients receive addresses by groups.
             */
            group?: number | null;
            /** @description Whether the host has the address now. Clients cannot connect before it does. */
            is_here: boolean;
            /** @description The pool that is served there. */
            pool: components["schemas"]["PoolName"];
            /** @description The name of the protocol. */
            protocol: string;
        };
        /**
         * @description The addresses at which the server of a pool listens, by protocol: the name of the option of `bulkhead pool-server`
         *     and `bulkhead portal`, and its values: `ADDRESS:PORT`, or `ADDRESS:PORT,GROUP` for a protocol with groups. Every
         *     protocol is listed.
         */
        Portals: {
            [key: string]: string[];
        };
        /** @description A head that is lost, and that no fence device has confirmed to be off. */
        PowerOffView: {
            /**
             * Format: uint64
             * @description Failed attempts.
             */
            failed_count: number;
            /** @description The head. */
            head: string;
            /** @description Why the fence agent of this head, which asks the witness, refuses it. */
            refusal?: string | null;
            /**
             * Format: uint64
             * @description Start of the cluster's wait, in milliseconds since 1970.
             */
            since_ms: number;
        };
        /** @description An uninterruptible power supply. */
        PowerSupply: {
            /**
             * Format: uint8
             * @description The charge of its battery.
             */
            charge_percent?: number | null;
            /** @description The heads that it supplies. */
            heads: string[];
            /** @description Its name in the appliance file. */
            name: string;
            /**
             * Format: uint32
             * @description How long its battery can supply the load.
             */
            runtime_s?: number | null;
            /** @description `mains`, `battery`, `low` or `unknown`. */
            state: string;
            /** @description Its status, as reported, such as `OL CHRG`. Absent if it has not responded. */
            status?: string | null;
            /** @description Its name in NUT: `NAME@ADDRESS`. */
            ups: string;
        };
        /** @description The power supplies of the appliance file, as this head reads them. */
        PowerView: {
            /** @description The supplies. */
            feeds: components["schemas"]["PowerSupply"][];
            /** @description The power of each head: `good`, `battery`, `low` or `unknown`. */
            heads: {
                [key: string]: string;
            };
            /** @description When heads shut down. */
            next: string;
            /** @description Sentences about the supplies. */
            problems: string[];
        };
        /** @description Privilege levels of IPMI that may switch the power. */
        Privilege: "operator" | "administrator";
        /** @description A set of time-outs that were tested together. */
        Profile: "fast" | "default" | "conservative";
        /**
         * @description A command that is started for each message. It reads the message as JSON from its standard input. Exit code 0 is a
         *     success.
         */
        Program: {
            /** @description Its absolute path. */
            path: string;
            /**
             * Format: uint32
             * @description It is killed after this time, in seconds.
             * @default 30
             */
            timeout_s?: number;
        };
        /** @description A property's value and its source. */
        Property: {
            /** @description `local`, `default`, `inherited from NAME`, or `-`. */
            source: string;
            /** @description The value as text. */
            value: string;
        };
        /** @description The exports of a protocol that has no view of its own. */
        ProtocolView: {
            /** @description The exports. */
            exports: components["schemas"]["ExportView"][];
            /** @description Where it listens. */
            listeners: string[];
            /** @description The protocol. */
            name: string;
            /** @description Set during the grace period, while clients may reclaim their state. */
            recovery?: components["schemas"]["RecoveryView"] | null;
            /** @description Ways in which clients can secure their connections, such as `TLS`. */
            secured_by?: string[];
        };
        /** @description Any control request to a pool. */
        Question: {
            /**
             * @description Return at once with an operation.
             * @default false
             */
            background?: boolean;
            /**
             * @description The name of the destroyed object, if one is.
             * @default null
             */
            confirm?: string | null;
            /** @description The control request. */
            request: components["schemas"]["Request"];
        };
        /** @description Which heads may act when they do not all see each other. */
        Quorum: {
            /** @description The rule. */
            rule: components["schemas"]["QuorumRule"];
            /** @description The witness that `rule = "witness"` needs. */
            witness?: components["schemas"]["Witness"] | null;
        };
        /** @description A rule of quorum. */
        QuorumRule: "two-node" | "witness" | "majority";
        /** @description Bytes that a copy of a pool may read in a second, each block counted once. */
        RateMax: string;
        /** @description A measured rate. */
        RateView: {
            /**
             * Format: uint64
             * @description Bytes a second of the planned work.
             */
            bytes_per_s: number;
            /**
             * Format: uint64
             * @description When that ended, in seconds since 1970; 0 if it runs.
             */
            ended: number;
            /** @description The measured work, such as `scrub`. */
            measured_by: string;
        };
        /** @description The leg of a mirror that a client read uses, if several legs are current. */
        ReadBalancing: "prefer-local" | "least-pending";
        /** @description A receiver of messages about alerts. It has exactly one of `mail`, `webhook`, `alertmanager`, `ntfy` and `program`. */
        Receiver: {
            /** @description Alerts to an Alertmanager of Prometheus, by version 2 of its API. `url` is that of its page, without `/api`. */
            alertmanager?: components["schemas"]["HttpServer"] | null;
            /**
             * @description Less severe alerts are not sent to it.
             * @default warning
             */
            least?: components["schemas"]["LeastSeverity"];
            /** @description Mail over SMTP. */
            mail?: components["schemas"]["Mail"] | null;
            /** @description Push messages over ntfy. `url` includes the topic. */
            ntfy?: components["schemas"]["HttpServer"] | null;
            /** @description A command on each head. */
            program?: components["schemas"]["Program"] | null;
            /**
             * @description The part of each day, in UTC, in which it receives only errors, and the messages that they are over, such as `20:00-05:30`. All other
             *     messages are delayed until its end.
             */
            quiet_utc?: string | null;
            /**
             * Format: uint32
             * @description Interval of reminders of open alerts, in hours; 0: none.
             * @default 24
             */
            reminder_h?: number;
            /** @description The time of each day, in UTC, of a message that is sent without alerts, too, such as `06:00`. Absent: none. */
            sign_of_life_utc?: string | null;
            /** @description JSON in a POST request to a server. */
            webhook?: components["schemas"]["HttpServer"] | null;
        };
        /** @description The result of a test message. */
        ReceiverTest: {
            /** @description Whether it accepted the message. */
            is_delivered: boolean;
            /** @description The receiver. */
            receiver: string;
            /** @description The reason of the failure. */
            why?: string | null;
        };
        /** @description A receiver of messages about alerts. */
        ReceiverView: {
            /** @description Its destination, in words. */
            destination: string;
            /**
             * Format: uint64
             * @description Attempts of this head that failed.
             */
            failed_count: number;
            /**
             * Format: uint64
             * @description The first failure since the last success, in milliseconds since 1970.
             */
            failing_since_ms?: number | null;
            /** @description Whether several attempts failed since the last success. */
            is_failing: boolean;
            /** @description `mail`, `webhook`, `alertmanager`, `ntfy` or `program`. */
            kind: string;
            /** @description The reason of the last failure. */
            last_failure?: string | null;
            /**
             * Format: uint64
             * @description The last failure, in milliseconds since 1970.
             */
            last_failure_ms?: number | null;
            /**
             * Format: uint64
             * @description The last success of a head, in milliseconds since 1970.
             */
            last_success_ms?: number | null;
            /** @description The least severity of alerts that it gets: `error`, `warning` or `info`. */
            least: string;
            /** @description Its name in the appliance file. */
            name: string;
            /**
             * Format: uint64
             * @description Messages that this head has delivered.
             */
            sent_count: number;
        };
        /**
         * @description The grace period: clients may reclaim the opens and locks that they held at the previous server. Conflicting
         *     requests are refused until it is over.
         */
        RecoveryView: {
            /**
             * Format: uint64
             * @description Clients that have not reclaimed yet; it expires early when none is left. None: it is not
             *     known which clients held state.
             */
            awaited_clients?: number | null;
            /**
             * Format: uint64
             * @description Milliseconds until it expires, if no client reclaims state before.
             */
            remaining_ms: number;
        };
        /** @description A refusal of a request. */
        Refusal: {
            /** @description The reason, and the recommended action. */
            failure: components["schemas"]["Failure"];
            /** @description Whether login is impossible because there is no user. */
            no_users?: boolean;
        };
        /** @description The plan for the replacement of a disk. */
        ReplacementView: {
            /** @description Unused disks of this head. */
            candidates: components["schemas"]["UnusedDiskView"][];
            /** @description Devices that should be replaced, the worst first. */
            failing: components["schemas"]["FailingView"][];
            /** @description Why it is not possible yet, in a sentence. */
            hindrance?: string | null;
            /**
             * Format: uint64
             * @description Bytes that a new disk needs.
             */
            needed_bytes: number;
            /** @description The disk that would replace it. */
            new?: string | null;
            /** @description The device that would be replaced. */
            old?: string | null;
            /** @description The pool. */
            pool: string;
            /** @description The steps, in sentences. */
            steps: string[];
            /** @description The new device of a replacement in progress; then no further choice is needed. */
            under_way?: string | null;
        };
        /** @description Let a pool replicate into this one. */
        ReplicateAccept: components["schemas"]["Peer"];
        /** @description The destination of a volume, or of every volume below a dataset. */
        ReplicateDocument: {
            /** @description Encrypted volumes leave this pool decrypted: the receiver stores them like any volume. */
            decrypt?: boolean;
            /**
             * Format: uint64
             * @description Seconds between two runs; none: only on request.
             */
            every_s?: number | null;
            /** @description The volume, or the dataset above volumes, at the receiver. */
            into: components["schemas"]["VolumeName"];
            /**
             * Format: uint32
             * @description Number of replicated snapshots that are retained on each side.
             */
            keep: number;
            /** @description The receiving pool's certificate. */
            peer: components["schemas"]["Fingerprint"];
            /** @description Encrypted volumes stay encrypted in transit and at the receiver. */
            raw?: boolean;
            /** @description The receiver, as `HOST:PORT`. */
            to: string;
            /**
             * Format: uint32
             * @description 1.
             */
            version: number;
        };
        /**
         * @description Replace lost originals by their copies, with identities and exports
         *
         *     For the loss of the originals' site. Initiators find the same disks under the same names.
         *     Missing targets are created. Afterwards these volumes accept no replication any more.
         */
        ReplicatePromote: {
            /** @description The copy, or the dataset above copies */
            dataset: components["schemas"]["VolumeName"];
            /** @description Confirm that the originals are served nowhere, and never will be again */
            original_is_lost?: boolean;
        };
        /** @description Stop replicating a dataset; the copies at the receiver remain */
        ReplicateRemove: {
            /** @description The volume or dataset */
            dataset: components["schemas"]["VolumeName"];
        };
        /** @description Requests about replication. */
        ReplicateRequest: ("identity" | "rotate_key" | "list") | {
            accept: components["schemas"]["ReplicateAccept"];
        } | {
            revoke: components["schemas"]["ReplicateRevoke"];
        } | {
            set: components["schemas"]["ReplicateSet"];
        } | {
            remove: components["schemas"]["ReplicateRemove"];
        } | {
            promote: components["schemas"]["ReplicatePromote"];
        } | {
            run: components["schemas"]["ReplicateRun"];
        };
        /** @description Stop accepting replication from a pool. */
        ReplicateRevoke: {
            /** @description Its certificate. */
            fingerprint: components["schemas"]["Fingerprint"];
        };
        /** @description Replicate now */
        ReplicateRun: {
            /** @description The volume or dataset */
            dataset: components["schemas"]["VolumeName"];
        };
        /** @description Replicate a volume, or all below a dataset. */
        ReplicateSet: {
            /** @description Which. */
            dataset: components["schemas"]["VolumeName"];
            /** @description Where to. */
            document: components["schemas"]["ReplicateDocument"];
        };
        /** @description The result of replication. */
        ReplicateState: {
            /**
             * Format: uint64
             * @description The last attempt, in seconds since 1970.
             * @default 0
             */
            attempted_unix_s?: number;
            /**
             * Format: uint64
             * @description Bytes of the last successful run.
             * @default 0
             */
            bytes?: number;
            /**
             * Format: uint64
             * @description Bytes of all of them.
             * @default 0
             */
            bytes_total?: number;
            /** @description Why the last attempt failed; none if it did not. */
            failure?: string | null;
            /**
             * Format: uint64
             * @description When the rule was set, in seconds since 1970; 0: not known.
             */
            since_unix_s?: number;
            /**
             * Format: uint64
             * @description The timestamp of the replicated contents, in seconds since 1970; 0: none.
             * @default 0
             */
            succeeded_unix_s?: number;
            /**
             * Format: uint32
             * @description 1.
             */
            version: number;
        };
        /** @description One replicated dataset. */
        ReplicatedView: {
            /** @description Which. */
            dataset: components["schemas"]["VolumeName"];
            /** @description The destination, and the interval. */
            document: components["schemas"]["ReplicateDocument"];
            /**
             * Format: uint64
             * @description Age of the replicated contents in seconds; none if none have arrived.
             */
            lag_s?: number | null;
            /** @description The result. */
            state: components["schemas"]["ReplicateState"];
            /** @description The active run: its duration, its volume, its progress. */
            under_way?: string | null;
        };
        /** @description The listener of a pool for replication from other pools. */
        Replication: {
            /**
             * Format: ip
             * @description One of the pool's addresses.
             */
            address: string;
            /**
             * Format: uint16
             * @description The TCP port.
             * @default 8873
             */
            port?: number;
        };
        /** @description Summary of the replication of a dataset. */
        ReplicationGlance: {
            /** @description Which. */
            dataset: components["schemas"]["VolumeName"];
            /**
             * Format: uint64
             * @description Seconds between two runs; none: only on request.
             */
            every_s?: number | null;
            /**
             * Format: uint64
             * @description Age of the replicated contents in seconds; none if none have arrived, or if it is unknown.
             */
            lag_s?: number | null;
            /** @description The receiver, as `HOST:PORT`. */
            to: string;
            /** @description The fault, if any. */
            trouble?: components["schemas"]["ReplicationTrouble"] | null;
            /** @description The same in a sentence. */
            why?: string | null;
        };
        /** @description The fault of a dataset's replication. */
        ReplicationTrouble: "failing" | "late" | "clock_ahead" | "unreadable";
        /** @description The replication of a pool. */
        ReplicationView: {
            /** @description Datasets that other pools have replicated into it. */
            copies?: components["schemas"]["CopyView"][];
            /** @description Its certificate, if it has one. */
            fingerprint?: components["schemas"]["Fingerprint"] | null;
            /** @description Pools that may replicate into it. */
            peers: components["schemas"]["Peer"][];
            /** @description The pool. */
            pool: components["schemas"]["PoolName"];
            /** @description Datasets that it replicates to other pools. */
            replicated: components["schemas"]["ReplicatedView"][];
        };
        /** @description One request. */
        Request: "status" | {
            pool: components["schemas"]["PoolRequest"];
        } | {
            volume: components["schemas"]["VolumeRequest"];
        } | {
            filesystem: components["schemas"]["FilesystemRequest"];
        } | {
            key: components["schemas"]["KeyRequest"];
        } | {
            snapshot: components["schemas"]["SnapshotRequest"];
        } | {
            target: components["schemas"]["TargetRequest"];
        } | {
            nbd: components["schemas"]["NbdRequest"];
        } | {
            transfer: components["schemas"]["TransferRequest"];
        } | {
            replicate: components["schemas"]["ReplicateRequest"];
        } | {
            portal: components["schemas"]["PortalRequest"];
        } | {
            server: components["schemas"]["ServerRequest"];
        };
        /** @description Requests of one kind. Times are from the arrival of a request to its response. */
        RequestActivity: {
            /**
             * Format: uint64
             * @description Bytes that they moved.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Requests.
             */
            count: number;
            /** @description Requests by latency, in the classes of [`VolumeActivity::read_times`]. */
            times: number[];
            /**
             * Format: uint64
             * @description Time of all of them, in microseconds.
             */
            us: number;
        };
        /** @description A rescue to begin. */
        RescueBegin: {
            /**
             * @description Whether the response includes commands that change labels inside it: the owner of a pool, the name of a volume
             *     group, the events of an array. Requires `writable`.
             * @default false
             */
            allow_label_changes?: boolean;
            /**
             * @description A file with a lock next to it; the rescue is ended when no process holds that lock any more.
             *     None: it lasts until `rescue end`, or until the server exits.
             * @default null
             */
            lease?: string | null;
            /**
             * @description One of its snapshots; none means the volume itself, which no client may use then.
             * @default null
             */
            snapshot?: components["schemas"]["SnapshotName"] | null;
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
            /**
             * @description Whether it is writable; of a snapshot a clone is written to, and destroyed at the end.
             * @default false
             */
            writable?: boolean;
        };
        /** @description A command, and its purpose. */
        RescueCommand: {
            /** @description The lines. */
            lines: string[];
            /**
             * Format: uint32
             * @description The partition that it opens or closes.
             */
            partition?: number | null;
            /** @description Its purpose. */
            purpose: string;
        };
        /** @description End the rescue of a volume; there is at most one. */
        RescueEnd: {
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description Requests about rescues. */
        RescueRequest: "list" | {
            begin: components["schemas"]["RescueBegin"];
        } | {
            end: components["schemas"]["RescueEnd"];
        };
        /** @description An active rescue. */
        RescueView: {
            /**
             * @description Whether commands are included that change labels inside it, such as the owner of a pool or the name of a volume
             *     group.
             * @default false
             */
            allow_label_changes?: boolean;
            /** @description The clone that exists during the rescue. */
            clone?: components["schemas"]["VolumeName"] | null;
            /** @description Commands to use it, to undo that, and to end it, in this order. */
            commands: components["schemas"]["RescueCommand"][];
            /** @description `gpt`, `mbr` or `none`. */
            partition_table: string;
            /**
             * @description The partitions; for a disk with a file system and no partition table, that file system,
             *     numbered 0.
             */
            partitions: components["schemas"]["Partition"][];
            /** @description Whether writes are refused. */
            read_only: boolean;
            /**
             * Format: uint64
             * @description Bytes.
             */
            size: number;
            /** @description The snapshot that is shown; none means the volume itself. */
            snapshot?: components["schemas"]["SnapshotName"] | null;
            /** @description The NBD socket; its only export has no name. */
            socket: string;
            /** @description The same as a URI for NBD clients. */
            uri: string;
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description The minimum retention of a receiver for each volume. The sender may request more, never less. */
        Retention: {
            /**
             * Format: uint32
             * @description Number of last days of which the first replicated snapshot is retained, up to
             *     [`KEEP_DAYS_MAX`].
             */
            days: number;
            /**
             * Format: uint32
             * @description Number of the newest replicated snapshots, 1 to [`KEEP_MAX`].
             */
            newest: number;
        };
        /** @description A user's role. Each role includes the rights of those before it. */
        Role: "read-only" | "operator" | "admin";
        /** @description A volume or file system was rolled back to a snapshot. */
        RolledBack: {
            /**
             * Format: uint64
             * @description Connections that were closed, because the size changed and their protocol has no
             *     notification for that.
             */
            connections_closed: number;
            /** @description Newer snapshots, which were destroyed. */
            destroyed: components["schemas"]["SnapshotName"][];
            /** @description Newer bookmarks, which were destroyed. */
            destroyed_bookmarks?: string[];
            /**
             * Format: uint64
             * @description How long clients were paused; none if it was not open.
             */
            pause_ms?: number | null;
            /**
             * Format: uint64
             * @description Sessions that were notified of the new contents.
             */
            sessions_told: number;
            /**
             * Format: uint64
             * @description The volume's size after the rollback; 0 for a file system.
             */
            size: number;
            /** @description The snapshot, with the volume's name. */
            to: components["schemas"]["SnapshotName"];
            /**
             * Format: uint64
             * @description The total duration.
             */
            took_ms: number;
        };
        /** @description When snapshots are taken, and how many of them are retained: `daily at 03:00 keep 7`. */
        Rule: string;
        /** @description A rule of a schedule. */
        RuleView: {
            /**
             * Format: uint64
             * @description When its newest snapshot was taken, in seconds since 1970.
             */
            latest?: number | null;
            /**
             * Format: uint64
             * @description Its next due time, in seconds since 1970.
             */
            next: number;
            /** @description The rule in words, such as `daily at 03:00 keep 7`. */
            rule: components["schemas"]["Rule"];
            /**
             * Format: uint64
             * @description Its existing snapshots.
             */
            snapshots: number;
        };
        /** @description The safeguards that a takeover depends on, as this head sees them. */
        Safeguards: {
            /** @description Heads that could not serve a pool, and that the cluster does not try for a while. */
            exclusions?: components["schemas"]["ExclusionView"][];
            /** @description The devices that power heads off. */
            fence_devices: components["schemas"]["FenceDeviceView"][];
            /** @description Whether this head's partition of the cluster has quorum, if known. */
            has_quorum?: boolean | null;
            /**
             * Format: uint64
             * @description Start of the loss of quorum, in milliseconds since 1970.
             */
            no_quorum_since_ms?: number | null;
            /** @description Heads that are lost, and not confirmed to be off. */
            power_offs: components["schemas"]["PowerOffView"][];
            /** @description The witness, if one votes. */
            witness?: components["schemas"]["WitnessView"] | null;
        };
        /** @description A scrub or resilver. */
        ScanView: {
            /**
             * Format: uint64
             * @description When it ended, in seconds since 1970; 0 before.
             * @default 0
             */
            ended?: number;
            /**
             * Format: uint64
             * @description Blocks that could not be repaired.
             */
            errors: number;
            /**
             * Format: uint64
             * @description Examined bytes.
             */
            examined: number;
            /** @description `scrub` or `resilver`. */
            function: string;
            /**
             * Format: uint64
             * @description Estimated remaining seconds.
             */
            remaining_s?: number | null;
            /**
             * Format: uint64
             * @description Bytes repaired.
             */
            repaired: number;
            /**
             * Format: uint64
             * @description When it began, in seconds since 1970.
             * @default 0
             */
            started?: number;
            /** @description `running`, `paused`, `finished` or `canceled`. */
            state: string;
            /**
             * Format: uint64
             * @description Bytes to examine.
             */
            to_examine: number;
        };
        /** @description Remove a schedule; the snapshots stay */
        ScheduleRemove: {
            /** @description Where the schedule is set */
            of: string;
        };
        /** @description Requests about schedules of snapshots. */
        ScheduleRequest: "list" | {
            set: components["schemas"]["ScheduleSet"];
        } | {
            remove: components["schemas"]["ScheduleRemove"];
        };
        /** @description Take snapshots of a volume, of all volumes below a dataset, or of a whole pool */
        ScheduleSet: {
            /** @description Of which volumes. */
            of: string;
            /** @description When, and how many are retained; none excludes these volumes. */
            rules: components["schemas"]["Rule"][];
            /**
             * @description Skip the snapshot of a dataset without changes.
             * @default false
             */
            skip_unchanged?: boolean;
        };
        /** @description A schedule of snapshots. */
        ScheduleView: {
            /** @description The dataset that has the schedule: a volume, a parent of volumes, or the pool. */
            of: string;
            /** @description Its rules; none excludes these volumes. */
            rules: components["schemas"]["RuleView"][];
            /** @description A volume without changes is skipped. */
            skip_unchanged: boolean;
            /** @description The volumes that it covers. */
            volumes: components["schemas"]["VolumeName"][];
        };
        /** @description An action on a scrub. */
        ScrubAction: "start" | "resume" | "pause" | "stop";
        /** @description When a pool is scrubbed. */
        ScrubScheduleView: {
            /**
             * Format: uint64
             * @description When a scrub is due next, in seconds since 1970.
             */
            next: number;
            /** @description In words, such as `monthly on 1 at 02:00`. */
            when: components["schemas"]["When"];
        };
        /** @description A secret text. `Debug` and `Display` of any container of it cannot show it. */
        Secret: string;
        /** @description A part of the objects of a list. */
        Selection: string;
        /** @description The stream to send. */
        SendWhat: {
            snapshot: {
                /** @description Tiny blocks travel inside their records. */
                embedded: boolean;
                /**
                 * @description The snapshot that the receiver already has: `@SNAPSHOT`, `#BOOKMARK`, or a full name of
                 *     either.
                 */
                from?: string | null;
                /** @description Its name. */
                name: components["schemas"]["SnapshotName"];
                /** @description Blocks are decompressed, and split at 128K, for old receivers. */
                plain: boolean;
                /** @description Raw blocks: those of an encrypted volume stay encrypted. */
                raw: boolean;
            };
        } | {
            rest: {
                /** @description The receiver's token. */
                token: string;
            };
        };
        /** @description A message about alerts that was delivered. */
        SentMessage: {
            /**
             * Format: uint64
             * @description Its time, in milliseconds since 1970.
             */
            at_ms: number;
            /** @description The head that sent it. */
            head: string;
            /** @description The receiver. */
            receiver: string;
            /** @description Its subject. */
            subject: string;
            /** @description Its text, shortened if it is long. */
            text: string;
        };
        /**
         * @description Requests about the server process.
         * @enum {string}
         */
        ServerRequest: "ping" | "reload" | "settle";
        /** @description The server process. */
        ServerStatus: {
            /**
             * Format: uint64
             * @description Number of failed devices that were brought back.
             * @default 0
             */
            device_returns?: number;
            /** @description Whether it is draining its sessions before it exits. */
            draining: boolean;
            /**
             * Format: uint64
             * @description Milliseconds from the process's start to the first read served.
             */
            first_read_after_ms?: number | null;
            /** @description `listeners` of iSCSI, under the older name. */
            iscsi_portals: string[];
            /**
             * @description The loaded ZFS library: version, kind, build. Empty from an older server.
             * @default
             */
            library?: string;
            /**
             * @description Addresses of each protocol, by its name: `ADDRESS:PORT`, `ADDRESS:PORT,GROUP` or `unix:/PATH`. Absent from an
             *     older server.
             * @default {}
             */
            listeners?: {
                [key: string]: string[];
            };
            /**
             * Format: uint64
             * @description Milliseconds from the process's start to listening.
             */
            listening_after_ms?: number | null;
            /**
             * Format: uint64
             * @description Lines of its log that were dropped because the pipe was not read.
             * @default 0
             */
            log_lines_dropped?: number;
            /** @description `listeners` of NBD, under the older name. */
            nbd_listeners: string[];
            /**
             * Format: uint64
             * @description Volumes that are open now.
             */
            open_volume_count: number;
            /**
             * Format: uint32
             * @description Process id.
             */
            pid: number;
            /**
             * Format: uint64
             * @description Set while the pool does not respond because its devices are missing: the age of the pool's
             *     part of the status.
             */
            pool_status_age_ms?: number | null;
            /**
             * Format: uint64
             * @description Milliseconds from the process's start until all intent logs of earlier owners were replayed.
             */
            replayed_after_ms?: number | null;
            /**
             * Format: uint64
             * @description Seconds since the process was started.
             */
            uptime_s: number;
            /** @description Version of the binary. */
            version: string;
        };
        /** @description A session as returned to a page. */
        Session: {
            /** @description The value of the header `X-Bulkhead-CSRF`, required with changes. */
            csrf: string;
            /**
             * Format: uint64
             * @description Its latest end, in milliseconds since 1970.
             */
            expires_at_ms: number;
            /** @description Their role. */
            role: components["schemas"]["Role"];
            /** @description The user. */
            user: string;
        };
        /** @description A session of an export. */
        SessionView: {
            /** @description The name that the client reports; the export's name where the protocol has no such name. */
            name: string;
            /** @description Where from. */
            peers: string[];
        };
        /** @description Its severity. */
        Severity: "error" | "warning" | "info";
        /** @description The share of a file system. */
        ShareView: {
            /** @description The parent from which it is inherited. */
            from?: string | null;
            /** @description Why it is not shared in this way, and the remedy. */
            problem?: string | null;
            /** @description Its property `sharenfs`, or that of the nearest parent that has one; `off` if none has. */
            value: string;
        };
        /** @description List the bookmarks of volumes and file systems */
        SnapshotBookmarks: {
            /** @description Only of this volume or file system, and of all below it. */
            volume?: components["schemas"]["VolumeName"] | null;
        };
        /** @description Create a volume from a snapshot */
        SnapshotClone: {
            /** @description The snapshot. */
            from: components["schemas"]["SnapshotName"];
            /**
             * @description Refuse to change a property that only an admin may set. A head sets it for other roles.
             * @default false
             */
            keep_rights?: boolean;
            /** @description Properties of the new volume. */
            properties: {
                [key: string]: string;
            };
            /** @description The new volume. */
            to: components["schemas"]["VolumeName"];
        };
        /** @description Create snapshots of volumes; several have the same point in time */
        SnapshotCreate: {
            /** @description Snapshots, as POOL/NAME@SNAPSHOT; with --recursive also as POOL@SNAPSHOT */
            names: components["schemas"]["NewSnapshot"][];
            /**
             * @description Of every volume below the named ones, too, all or none
             * @default false
             */
            recursive?: boolean;
        };
        /** @description Destroy snapshots */
        SnapshotDestroy: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description Snapshots, as POOL/NAME@SNAPSHOT, @PATTERN or @FIRST%LAST */
            names: components["schemas"]["SnapshotSet"][];
            /**
             * Format: uint64
             * @description Only those that are at least so old, such as 12h or 30d
             */
            older_than_s?: number | null;
            /** @description Also those of all volumes and file systems below */
            recursive?: boolean;
        };
        /**
         * @description Destroy a bookmark
         *
         *     No data is lost. A later send cannot start from the bookmark any more.
         */
        SnapshotDestroyBookmark: {
            /** @description The bookmark's name, without the volume's. */
            mark: string;
            /** @description The volume or file system. */
            volume: components["schemas"]["VolumeName"];
        };
        /**
         * @description Show the parts of a volume that were written since a snapshot
         *
         *     They are whole blocks of the volume, found by the times of their writes, without reading data. A block that was
         *     written with the same data is included. Without a second snapshot the command creates one, compares it, and destroys
         *     it.
         */
        SnapshotDiff: {
            /** @description The older snapshot. */
            from: components["schemas"]["SnapshotName"];
            /** @description The newer snapshot of the same volume; none means the present contents. */
            to?: components["schemas"]["SnapshotName"] | null;
        };
        /** @description Hold snapshots: only the destruction of the pool destroys them until they are released */
        SnapshotHold: {
            /** @description Snapshots, as POOL/NAME@SNAPSHOT, @PATTERN or @FIRST%LAST */
            names: components["schemas"]["SnapshotSet"][];
            /** @description Also those of all volumes and file systems below */
            recursive?: boolean;
            /** @description The name of the hold, such as the software that needs it */
            tag: string;
        };
        /** @description List the holds of snapshots */
        SnapshotHolds: {
            /** @description Only of these snapshots. */
            only?: components["schemas"]["SnapshotSet"] | null;
            /** @description Only of snapshots of this volume or file system, and of all below it. */
            volume?: components["schemas"]["VolumeName"] | null;
        };
        /** @description List the snapshots of a pool or a volume */
        SnapshotList: {
            /**
             * Format: uint64
             * @description Only those that are at least so many seconds old.
             */
            older_than_s?: number | null;
            /** @description Only these, by a name, a pattern or a range. */
            only?: components["schemas"]["SnapshotSet"] | null;
            /** @description Also of all below the volume. */
            recursive?: boolean;
            /** @description Only of this volume. */
            volume?: components["schemas"]["VolumeName"] | null;
        };
        /** @description A snapshot, such as `tank/vm/disk0@monday`. */
        SnapshotName: string;
        /** @description Release holds of snapshots */
        SnapshotRelease: {
            /** @description Snapshots, as POOL/NAME@SNAPSHOT, @PATTERN or @FIRST%LAST */
            names: components["schemas"]["SnapshotSet"][];
            /** @description Also those of all volumes and file systems below */
            recursive?: boolean;
            /** @description The name of the hold */
            tag: string;
        };
        /** @description Rename a snapshot; its clones, and clients of the volume, notice nothing */
        SnapshotRename: {
            /** @description Which. */
            from: components["schemas"]["SnapshotName"];
            /** @description Of the same volume, with another name after the `@`. */
            to: components["schemas"]["SnapshotName"];
        };
        /** @description Requests about snapshots. */
        SnapshotRequest: {
            create: components["schemas"]["SnapshotCreate"];
        } | {
            list: components["schemas"]["SnapshotList"];
        } | {
            rename: components["schemas"]["SnapshotRename"];
        } | {
            destroy: components["schemas"]["SnapshotDestroy"];
        } | {
            clone: components["schemas"]["SnapshotClone"];
        } | {
            hold: components["schemas"]["SnapshotHold"];
        } | {
            release: components["schemas"]["SnapshotRelease"];
        } | {
            holds: components["schemas"]["SnapshotHolds"];
        } | {
            bookmarks: components["schemas"]["SnapshotBookmarks"];
        } | {
            destroy_bookmark: components["schemas"]["SnapshotDestroyBookmark"];
        } | {
            diff: components["schemas"]["SnapshotDiff"];
        } | {
            schedule: components["schemas"]["ScheduleRequest"];
        };
        /** @description Snapshots of a dataset. */
        SnapshotSet: string;
        /** @description A snapshot. */
        SnapshotView: {
            /**
             * Format: uint64
             * @description Seconds since 1970.
             */
            created_unix_s?: number | null;
            /** @description Its name. */
            name: components["schemas"]["SnapshotName"];
            /**
             * Format: uint64
             * @description Space used by its contents.
             */
            referenced: number;
            /**
             * Format: uint64
             * @description Space that only it uses.
             */
            used: number;
        };
        /** @description The use of space by a dataset, and its limits. In bytes. */
        SpaceView: {
            /**
             * Format: uint64
             * @description Space that is available to it.
             */
            available: number;
            /**
             * Format: uint64
             * @description Space of its children.
             */
            by_children: number;
            /**
             * Format: uint64
             * @description Its present contents.
             */
            by_data: number;
            /**
             * Format: uint64
             * @description Reserved and not used yet.
             */
            by_reservation: number;
            /**
             * Format: uint64
             * @description Space that only its snapshots use.
             */
            by_snapshots: number;
            /**
             * Format: uint64
             * @description The compression ratio in percent: 150 for 1.5.
             */
            compress_percent: number;
            /**
             * Format: uint64
             * @description Its contents before compression.
             */
            logical_referenced: number;
            /**
             * Format: uint64
             * @description Size before compression, with its children.
             */
            logical_used: number;
            /** @description Its name; empty for a volume, which is named elsewhere. */
            name?: string;
            /**
             * Format: uint64
             * @description Limit of its space, with its snapshots and children.
             */
            quota?: number | null;
            /**
             * Format: uint64
             * @description Limit of the space of its contents.
             */
            refquota?: number | null;
            /**
             * Format: uint64
             * @description Space reserved for its contents.
             */
            refreservation?: number | null;
            /**
             * Format: uint64
             * @description Space reserved for it, its snapshots and children.
             */
            reservation?: number | null;
            /**
             * Format: uint64
             * @description Space that it uses, with its children.
             */
            used: number;
            /**
             * Format: uint64
             * @description Written since its newest snapshot.
             */
            written: number;
        };
        /** @description The overall status. */
        Status: {
            /** @description I/O on the volumes shown, since the server started. */
            activity?: components["schemas"]["VolumeActivity"][];
            /** @description The access rule for discovery of targets. */
            discovery?: components["schemas"]["DiscoveryView"] | null;
            /** @description I/O in the shared file systems, since the server started. */
            file_system_activity?: components["schemas"]["FileSystemActivity"][];
            /** @description NBD exports with their clients. */
            nbd: components["schemas"]["NbdView"][];
            /** @description The exports of other protocols. */
            other_protocols?: components["schemas"]["ProtocolView"][];
            /** @description The pool. */
            pool: components["schemas"]["PoolStatus"];
            /** @description Export documents that cannot be served, in sentences. */
            problems: string[];
            /** @description The other head that serves it, for a pool of the appliance without a server on this head. */
            served_by?: string | null;
            /** @description The server, if one runs. */
            server?: components["schemas"]["ServerStatus"] | null;
            /** @description Targets with their units and sessions. */
            targets: components["schemas"]["TargetView"][];
            /**
             * Format: uint64
             * @description Number of volumes.
             */
            volume_count: number;
        };
        /** @description A step of a takeover. */
        Step: {
            /**
             * Format: uint64
             * @description Milliseconds after the first step.
             */
            after_ms: number;
            /** @description The name. */
            name: string;
        };
        /** @description A streamed change: the name of the event, and its data. */
        Streamed: {
            data: components["schemas"]["Overview"];
            /** @constant */
            event: "overview";
        } | {
            data: components["schemas"]["Metrics"];
            /** @constant */
            event: "metrics";
        } | {
            data: components["schemas"]["PoolEvent"];
            /** @constant */
            event: "event";
        } | {
            data: components["schemas"]["Operation"];
            /** @constant */
            event: "operation";
        };
        /** @description A network in CIDR form, such as `10.0.0.0/24` or `fd00::/64`. Host bits are cleared. */
        Subnet: string;
        /** @description A head has started to serve a pool. */
        Takeover: {
            /**
             * Format: uint64
             * @description Its start, in milliseconds since 1970.
             */
            at_ms: number;
            /**
             * Format: uint64
             * @description Time until clients could reach the pool again, in milliseconds, counted from the first step.
             */
            duration_ms?: number | null;
            /** @description The previous server, if known. */
            from?: string | null;
            /** @description `takeover`, `hand-over`, `restart` or `start`. */
            kind: string;
            /** @description The pool. */
            pool: string;
            /** @description The steps, with their times. */
            steps: components["schemas"]["Step"][];
            /** @description The current server. */
            to: string;
        };
        /** @description Add to the access rule of a target. */
        TargetAllow: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /** @description The clients. */
            who: components["schemas"]["Who"];
        };
        /** @description Remove users and secrets. */
        TargetChapClear: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /**
             * @description Even though no secret is required afterwards: any client that the access rule allows needs
             *     none.
             * @default false
             */
            no_secret?: boolean;
            /** @description One user, or all with the mutual secret. */
            user?: string | null;
        };
        /** @description Require a name and a secret from initiators. */
        TargetChapSet: {
            /**
             * @description The initiators that may use it, by name; none means any. Replaces the previous list.
             * @default []
             */
            initiators?: components["schemas"]["IscsiName"][];
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /** @description Its secret. */
            secret: components["schemas"]["Secret"];
            /** @description The initiator's user name. */
            user: string;
        };
        /** @description Show the users with a secret, and whether the target authenticates itself. */
        TargetChapShow: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
        };
        /** @description Create a target without volumes; only loopback is allowed. */
        TargetCreate: {
            /** @description Its name. */
            name: components["schemas"]["IscsiName"];
            /** @description Groups of portals that offer it; empty means all. */
            portal_groups: number[];
        };
        /** @description Remove entries from the access rule of a target. Sessions that are no longer allowed are closed. */
        TargetDeny: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /** @description The clients. */
            who: components["schemas"]["Who"];
        };
        /** @description Remove a target and the maps of its volumes. */
        TargetDestroy: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /**
             * @description Even though initiators are connected: their sessions are closed.
             * @default false
             */
            in_use?: boolean;
            /**
             * @description Even though volumes are mapped in it.
             * @default false
             */
            mapped?: boolean;
            /** @description Which. */
            name: components["schemas"]["IscsiName"];
        };
        /** @description The request. */
        TargetList: {
            /** @description Only those in a dataset, or with such a name: `tank/vms`, `tank/web-*` or `web-*`. */
            only?: components["schemas"]["Selection"] | null;
        };
        /** @description Map a volume in a target as a logical unit */
        TargetMap: {
            /**
             * Format: uint16
             * @description Number of the unit [default: the lowest free one]
             */
            lun?: number | null;
            /** @description The target's name */
            name: components["schemas"]["IscsiName"];
            /** @description Refuse writes */
            read_only: boolean;
            /** @description The volume */
            volume: components["schemas"]["VolumeName"];
            /**
             * @description Whether the unit starts with a volatile write cache: on acknowledges writes before they are
             *     durable, as a disk does, and loses those that were not flushed if the server dies under a
             *     running initiator [default: off]
             */
            write_cache?: boolean | null;
        };
        /** @description Authenticate the target to initiators that require it. */
        TargetMutualSet: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /** @description Its secret, unlike any initiator's. */
            secret: components["schemas"]["Secret"];
            /** @description The target's user name. */
            user: string;
        };
        /** @description Requests about iSCSI targets. */
        TargetRequest: {
            create: components["schemas"]["TargetCreate"];
        } | {
            show: components["schemas"]["TargetShow"];
        } | {
            destroy: components["schemas"]["TargetDestroy"];
        } | {
            map: components["schemas"]["TargetMap"];
        } | {
            unmap: components["schemas"]["TargetUnmap"];
        } | {
            allow: components["schemas"]["TargetAllow"];
        } | {
            deny: components["schemas"]["TargetDeny"];
        } | {
            list: components["schemas"]["TargetList"];
        } | {
            chap_set: components["schemas"]["TargetChapSet"];
        } | {
            mutual_set: components["schemas"]["TargetMutualSet"];
        } | {
            chap_show: components["schemas"]["TargetChapShow"];
        } | {
            chap_clear: components["schemas"]["TargetChapClear"];
        } | {
            discovery: components["schemas"]["DiscoveryRequest"];
        };
        /** @description One target in detail. */
        TargetShow: {
            /** @description Which. */
            name: components["schemas"]["IscsiName"];
        };
        /** @description Remove a volume from a target */
        TargetUnmap: {
            /**
             * @description Even though initiators are connected: they lose the unit
             * @default false
             */
            in_use?: boolean;
            /** @description The target's name */
            name: components["schemas"]["IscsiName"];
            /** @description The volume */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description A target. Secrets are never part of a response. */
        TargetView: {
            /** @description The clients that may log in. */
            access: components["schemas"]["AccessRule"];
            /** @description CHAP users. */
            chap_users: string[];
            /** @description The user name by which the target authenticates itself. */
            mutual_user?: string | null;
            /** @description Its name. */
            name: components["schemas"]["IscsiName"];
            /** @description Portal groups that offer it; empty means all. */
            portal_groups: number[];
            /** @description Current sessions; none when no server runs. */
            sessions?: components["schemas"]["SessionView"][];
            /** @description Its logical units. */
            units: components["schemas"]["UnitView"][];
        };
        /** @description Single time-outs that override those of the profile. */
        TimeoutWishes: {
            /**
             * Format: uint32
             * @description Limit of the delay at boot, in seconds, in which a head awaits the other heads before it starts Pacemaker, which
             *     powers off heads that it does not see. With `rule = "two-node"` there is no limit.
             * @default null
             */
            boot_wait_s?: number | null;
            /**
             * Format: uint32
             * @description Corosync's `consensus`: time for the surviving heads to agree, in milliseconds.
             * @default null
             */
            consensus_ms?: number | null;
            /**
             * Format: uint32
             * @description How long a disk may take for one read or write, in seconds. A slower disk counts as failed, and the pool
             *     continues with the remaining ones; clients are blocked until then. Disks that try hard to read a bad sector need
             *     up to 7 s where their error recovery is bounded, and a minute where it is not.
             * @default null
             */
            disk_answer_s?: number | null;
            /**
             * Format: uint32
             * @description Interval of tests that each fence device responds, in seconds.
             * @default null
             */
            fence_monitor_s?: number | null;
            /**
             * Format: uint32
             * @description Bound of one power-off by a fence device, in seconds.
             * @default null
             */
            fence_s?: number | null;
            /**
             * Format: uint32
             * @description Time between probes of each link (`knet_ping_interval`), in milliseconds.
             * @default null
             */
            link_probe_interval_ms?: number | null;
            /**
             * Format: uint32
             * @description Silence after which one link counts as down (`knet_ping_timeout`), in milliseconds.
             * @default null
             */
            link_probe_timeout_ms?: number | null;
            /**
             * Format: uint32
             * @description Probes that must be answered before a link counts as up again (`knet_pong_count`).
             * @default null
             */
            link_probes_up?: number | null;
            /**
             * Format: uint32
             * @description Time between tests that a pool's server is alive, in seconds.
             * @default null
             */
            pool_monitor_s?: number | null;
            /**
             * Format: uint32
             * @description Bound of one such test, in seconds. A server that does not respond for a tenth of it (300 ms
             *     to 3 s) counts as failed.
             * @default null
             */
            pool_monitor_timeout_s?: number | null;
            /**
             * Format: uint32
             * @description Bound of the start of a pool, in seconds. A pool that starts more slowly is moved to another
             *     head.
             * @default null
             */
            pool_start_s?: number | null;
            /**
             * Format: uint32
             * @description Bound of the stop of a pool, in seconds. A head that stops more slowly is powered off. A
             *     server that does not respond for a hundredth of it (200 ms to 1 s) is killed.
             * @default null
             */
            pool_stop_s?: number | null;
            /**
             * @description The profile of all values that are not set here: `fast`, `default` or `conservative`.
             * @default default
             */
            profile?: components["schemas"]["Profile"];
            /**
             * Format: uint32
             * @description The longest pause that clients are promised after the loss of a head, in seconds.
             * @default null
             */
            takeover_budget_s?: number | null;
            /**
             * Format: uint32
             * @description Corosync's `token`: silence after which a head counts as lost, in milliseconds. A head that
             *     the hardware or the hypervisor stalls for longer is powered off although it is healthy.
             * @default null
             */
            token_ms?: number | null;
        };
        /**
         * @description TLS of a protocol that a pool is served by. The files are stored on every head that can serve the pool. They are
         *     read when the server starts and when it reloads its exports.
         */
        Tls: {
            /**
             * @description File on each head with the certificate and those between it and a root, PEM. It is for the
             *     pool's addresses, or for names that resolve to them.
             */
            certificate_file: string;
            /**
             * @description File on each head with the authorities that sign the clients' certificates, PEM. Absent: clients
             *     need no certificate.
             */
            client_authority_file?: string | null;
            /** @description File on each head that holds its private key, PEM, readable by root only. */
            key_file: string;
        };
        /** @description A token as returned by the API; the token itself only once, in the response that creates it. */
        TokenView: {
            /**
             * Format: uint64
             * @description When it was made, in milliseconds since 1970.
             */
            created_at_ms: number;
            /**
             * Format: uint64
             * @description When it expires, in milliseconds since 1970.
             */
            expires_at_ms?: number | null;
            /** @description Identifies the token in requests. */
            id: string;
            /** @description Its purpose. */
            name: string;
            /** @description Its role: never above that of its user. */
            role: components["schemas"]["Role"];
            /** @description The token. */
            token?: string | null;
            /** @description Its user. */
            user: string;
        };
        /** @description Discard the state that an interrupted receive left. */
        TransferAbort: {
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description Create a bookmark of a snapshot, as the start of a send after the snapshot is destroyed. */
        TransferBookmark: {
            /** @description The bookmark's name, without the volume's. */
            mark: string;
            /** @description The snapshot. */
            snapshot: components["schemas"]["SnapshotName"];
        };
        /** @description The state that an interrupted receive left. */
        TransferInterrupted: {
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description Receive the stream of the passed descriptor. Its duration depends on the sender. */
        TransferReceive: {
            /**
             * @description Discard the changes since the stream's base.
             * @default false
             */
            force?: boolean;
            /**
             * @description Create missing parents.
             * @default false
             */
            parents?: boolean;
            /**
             * @description Retain the received part of a stream that is cut off.
             * @default false
             */
            resumable?: boolean;
            /**
             * @description The snapshot's name, without the volume's; none selects the stream's.
             * @default null
             */
            tag?: string | null;
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description Requests about streams. */
        TransferRequest: {
            send: components["schemas"]["TransferSend"];
        } | {
            receive: components["schemas"]["TransferReceive"];
        } | {
            interrupted: components["schemas"]["TransferInterrupted"];
        } | {
            abort: components["schemas"]["TransferAbort"];
        } | {
            bookmark: components["schemas"]["TransferBookmark"];
        };
        /** @description Write the stream of a snapshot to the passed descriptor. Its duration depends on the receiver. */
        TransferSend: {
            /**
             * @description Only estimate the size.
             * @default false
             */
            estimate?: boolean;
            /** @description The stream to send. */
            what: components["schemas"]["SendWhat"];
        };
        /** @description The result of a send or receive. */
        TransferView: {
            /**
             * Format: uint64
             * @description Bytes of the stream; approximate for an estimate.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Its duration.
             */
            elapsed_ms: number;
            /** @description Whether it was only estimated. */
            is_estimate?: boolean;
            /** @description Full names of the snapshots, oldest first. */
            snapshots: string[];
        };
        /** @description A logical unit. */
        UnitView: {
            /**
             * Format: uint16
             * @description Its number.
             */
            lun: number;
            /** @description NAA designator in hex. */
            naa: string;
            /** @description Writes are refused. */
            read_only: boolean;
            /** @description Unit serial number. */
            serial: string;
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
            /** @description Whether its write cache is enabled at the start. */
            write_cache: boolean;
        };
        /** @description An unused disk. */
        UnusedDiskView: {
            /** @description The manufacturer's model name. */
            model?: string | null;
            /** @description Its most stable path. */
            path: string;
            /** @description Why it is not selected automatically. */
            refused?: string | null;
            /** @description The serial number printed on it. */
            serial?: string | null;
            /**
             * Format: uint64
             * @description Bytes.
             */
            size: number;
        };
        /** @description The uninterruptible power supplies, as reported by Network UPS Tools (NUT). */
        Ups: {
            /** @description The supplies by name, such as `a`. */
            feeds: {
                [key: string]: components["schemas"]["Feed"];
            };
            /**
             * Format: uint8
             * @description On battery, a UPS counts as low at this charge, in percent. It also does when it reports so itself.
             * @default 30
             */
            shutdown_below?: number;
            /**
             * Format: uint32
             * @description On battery, a UPS counts as low when it can supply its load for this time only, in seconds.
             * @default 300
             */
            shutdown_runtime_s?: number;
        };
        /** @description A UPS of an `upsd`, as `NAME@ADDRESS:PORT`. */
        UpsAddress: string;
        /** @description A change of a user. */
        UserChange: {
            /**
             * @description The current password, required for a change of one's own.
             * @default null
             */
            current_password?: string | null;
            /**
             * @description Another password.
             * @default null
             */
            password?: string | null;
            /**
             * @description Another role.
             * @default null
             */
            role?: components["schemas"]["Role"] | null;
        };
        /** @description A user as returned by the API. */
        UserView: {
            /**
             * Format: uint64
             * @description When it was made, in milliseconds since 1970.
             */
            created_at_ms: number;
            /** @description The name. */
            name: string;
            /** @description Their role. */
            role: components["schemas"]["Role"];
        };
        /** @description One value before and after; none where there is no such value. */
        ValueChange: {
            /** @description The value after. */
            after?: string | null;
            /** @description The value before. */
            before?: string | null;
            /** @description Its name. */
            name: string;
        };
        /** @description A head that is a virtual machine. */
        VirtualMachine: {
            /** @description Name of its hypervisor in `hypervisors`. */
            hypervisor: string;
            /** @description Its name or number there, in the form that the agent expects. */
            machine: string;
        };
        /** @description I/O of clients on a volume since the server started. Times are from the arrival of a request to its response. */
        VolumeActivity: {
            /**
             * Format: uint64
             * @description Requests that failed.
             */
            errors: number;
            /** @description It is frozen. */
            frozen?: components["schemas"]["FrozenView"] | null;
            /** @description The volume. */
            name: components["schemas"]["VolumeName"];
            /**
             * Format: uint64
             * @description Bytes read.
             */
            read_bytes: number;
            /**
             * @description Reads by latency: up to 64 us, 256 us, 1024 us, each four times the previous one, the last
             *     without a bound.
             */
            read_times: number[];
            /**
             * Format: uint64
             * @description Time of all reads, in microseconds.
             */
            read_us: number;
            /**
             * Format: uint64
             * @description Reads.
             */
            reads: number;
            /**
             * Format: uint64
             * @description Writes among them that were refused for lack of space.
             * @default 0
             */
            refused_for_space?: number;
            /**
             * Format: uint64
             * @description Bytes written.
             */
            write_bytes: number;
            /** @description Writes by latency, as for reads. */
            write_times: number[];
            /**
             * Format: uint64
             * @description Time of all writes, in microseconds, including durability.
             */
            write_us: number;
            /**
             * Format: uint64
             * @description Writes.
             */
            writes: number;
        };
        /** @description A change of a volume. */
        VolumeChange: {
            /**
             * @description Data beyond a smaller size may be lost.
             * @default false
             */
            allow_shrink?: boolean;
            /**
             * @description Another name, `POOL/NAME`.
             * @default null
             */
            name?: components["schemas"]["VolumeName"] | null;
            /**
             * @description Other values of properties.
             * @default {}
             */
            properties?: {
                [key: string]: string;
            };
            /**
             * Format: uint64
             * @description Another size in bytes.
             * @default null
             */
            size?: number | null;
        };
        /** @description Create a volume */
        VolumeCreate: {
            /**
             * Format: uint32
             * @description Block size in bytes: a power of two, 512 to 16M.
             */
            block_size?: number | null;
            /** @description Succeed if a volume of the same size exists. */
            exist_ok: boolean;
            /** @description A key of its own. Without one it inherits: plain, or encrypted with the parent's key. */
            key?: components["schemas"]["KeySettings"] | null;
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description Create missing parents. */
            parents: boolean;
            /** @description Native (`compression`, `checksum`, `dedup`, `sync`, ...) and user (`a:b`) properties. */
            properties: {
                [key: string]: string;
            };
            /**
             * Format: uint64
             * @description Size in bytes: a multiple of the block size.
             */
            size: number;
            /** @description No space is reserved. */
            sparse: boolean;
        };
        /**
         * @description Destroy a volume, with its snapshots if requested
         *
         *     A dataset that holds volumes is no volume: `bulkhead filesystem destroy --recursive` destroys it with all its
         *     children.
         */
        VolumeDestroy: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description Even though it is exported, or in use: its exports are removed first */
            exported: boolean;
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
            /** @description Its snapshots too */
            recursive: boolean;
        };
        /**
         * @description Discard the acknowledged writes of a log that cannot be replayed
         *
         *     A volume with an intent log that cannot be replayed completely is not served, and its log is retained: repair the
         *     devices first. This is for devices that are permanently lost. The writes in the log were acknowledged as durable,
         *     and are lost.
         */
        VolumeDiscardLog: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
        };
        /**
         * @description Pause writes by clients for a consistent copy elsewhere; reads continue
         *
         *     Completes active commands, and flushes all written data to stable storage. From then on writes and discards of iSCSI
         *     and NBD clients are paused, until `volume thaw` or until the time is over.
         */
        VolumeFreeze: {
            /** @description The volumes, all of one pool; each is exported */
            names: components["schemas"]["VolumeName"][];
            /**
             * Format: uint64
             * @description Time after which writes continue, at most 60s, such as 30s
             * @default 10
             */
            seconds?: number;
        };
        /** @description Read properties */
        VolumeGet: {
            /** @description The volume, or a pool for the values that its volumes inherit */
            name: string;
            /** @description Which properties, separated by blanks or commas, or `all` [default: all] */
            names: string[];
        };
        /** @description Remove a property's own value, so that the parent's is inherited */
        VolumeInherit: {
            /** @description The volume */
            name: string;
            /** @description Which properties */
            names: string[];
        };
        /** @description The request. */
        VolumeList: {
            /** @description Only those in a dataset, or with such a name: `tank/vms`, `tank/web-*` or `web-*`. */
            only?: components["schemas"]["Selection"] | null;
        };
        /** @description A volume (or any dataset below a pool), such as `tank/vm/disk0`. */
        VolumeName: string;
        /** @description Swap roles with the volume that this one was cloned from, so that the origin can be destroyed */
        VolumePromote: {
            /**
             * @description Refuse to change a property that only an admin may set. A head sets it for other roles.
             * @default false
             */
            keep_rights?: boolean;
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Rates of a volume. */
        VolumeRates: {
            /** @description Its pool. */
            pool: string;
            /**
             * Format: double
             * @description Bytes read in a second.
             */
            read_bytes_per_s: number;
            /**
             * Format: double
             * @description Mean time of a read, in microseconds, if there was one.
             */
            read_latency_us?: number | null;
            /**
             * Format: double
             * @description Reads in a second.
             */
            read_ops_per_s: number;
            /** @description Its name. */
            volume: string;
            /**
             * Format: double
             * @description Bytes written in a second.
             */
            write_bytes_per_s: number;
            /**
             * Format: double
             * @description Mean time of a write, in microseconds, if there was one.
             */
            write_latency_us?: number | null;
            /**
             * Format: double
             * @description Writes in a second.
             */
            write_ops_per_s: number;
        };
        /** @description Rename a volume within its pool; exports and identity are retained */
        VolumeRename: {
            /** @description The volume */
            from: components["schemas"]["VolumeName"];
            /**
             * @description Refuse to change a property that only an admin may set. A head sets it for other roles.
             * @default false
             */
            keep_rights?: boolean;
            /** @description Its new name */
            to: components["schemas"]["VolumeName"];
        };
        /** @description Requests about volumes. */
        VolumeRequest: {
            create: components["schemas"]["VolumeCreate"];
        } | {
            show: components["schemas"]["VolumeShow"];
        } | {
            resize: components["schemas"]["VolumeResize"];
        } | {
            destroy: components["schemas"]["VolumeDestroy"];
        } | {
            rename: components["schemas"]["VolumeRename"];
        } | {
            rollback: components["schemas"]["VolumeRollback"];
        } | {
            promote: components["schemas"]["VolumePromote"];
        } | {
            discard_log: components["schemas"]["VolumeDiscardLog"];
        } | {
            get: components["schemas"]["VolumeGet"];
        } | {
            set: components["schemas"]["VolumeSet"];
        } | {
            inherit: components["schemas"]["VolumeInherit"];
        } | {
            freeze: components["schemas"]["VolumeFreeze"];
        } | {
            thaw: components["schemas"]["VolumeThaw"];
        } | {
            list: components["schemas"]["VolumeList"];
        } | {
            space: components["schemas"]["VolumeSpace"];
        } | {
            rescue: components["schemas"]["RescueRequest"];
        };
        /** @description Change a volume's size; connected clients are notified */
        VolumeResize: {
            /** @description Data beyond the new size may be lost */
            allow_shrink: boolean;
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
            /**
             * Format: uint64
             * @description The new size, such as 20G
             */
            size: number;
        };
        /**
         * @description Roll a volume back to a snapshot, even while it is exported and in use
         *
         *     Changes since the snapshot are lost. Clients stay connected: iSCSI initiators are notified of
         *     the new contents. Caches of clients are not changed: unmount the file system, or stop the
         *     virtual machine, before.
         */
        VolumeRollback: {
            /** @description Refuse, with the list of objects that would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /**
             * @description Destroy the volume's newer snapshots
             * @default false
             */
            destroy_newer?: boolean;
            /** @description Show the objects that would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description The snapshot, as POOL/NAME@SNAPSHOT */
            to: components["schemas"]["SnapshotName"];
        };
        /** @description Change properties */
        VolumeSet: {
            /** @description Volume, or the pool's name for the root dataset. */
            name: string;
            /** @description New values. */
            properties: {
                [key: string]: string;
            };
        };
        /** @description Show one volume with its properties, identity and exports */
        VolumeShow: {
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
        };
        /** @description The request. */
        VolumeSpace: {
            /** @description Only those in a dataset, or with such a name: `tank/vms`, `tank/web-*` or `web-*`. */
            only?: components["schemas"]["Selection"] | null;
        };
        /** @description Resume writes to frozen volumes; fails if they did not stay frozen until now */
        VolumeThaw: {
            /** @description The volumes, all of one pool */
            names: components["schemas"]["VolumeName"][];
        };
        /** @description A volume. */
        VolumeView: {
            /**
             * Format: uint32
             * @description Its block size; 0 while it is locked.
             */
            block_size: number;
            /** @description Its exports, such as `iscsi:IQN/0` and `nbd:NAME`. */
            exports: string[];
            /** @description It is frozen. */
            frozen?: components["schemas"]["FrozenView"] | null;
            /** @description Its identity towards initiators. */
            identity?: components["schemas"]["Identity"] | null;
            /** @description It is encrypted and its key is not loaded. */
            locked?: boolean;
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description The snapshot it was cloned from. */
            origin?: string | null;
            /** @description Properties; only in detail. */
            properties?: {
                [key: string]: components["schemas"]["Property"];
            };
            /**
             * Format: uint64
             * @description Space used by its current contents.
             */
            referenced: number;
            /**
             * Format: uint64
             * @description Its size; 0 while it is locked.
             */
            size: number;
            /**
             * @description Its use of space, and its limits.
             * @default {
             *       "available": 0,
             *       "by_children": 0,
             *       "by_data": 0,
             *       "by_reservation": 0,
             *       "by_snapshots": 0,
             *       "compress_percent": 0,
             *       "logical_referenced": 0,
             *       "logical_used": 0,
             *       "used": 0,
             *       "written": 0
             *     }
             */
            space?: components["schemas"]["SpaceView"];
            /** @description Whether it has no reservation. */
            sparse: boolean;
            /**
             * Format: uint64
             * @description Space used by it and its snapshots.
             */
            used: number;
        };
        /** @description Recurring points in time. */
        When: string;
        /** @description Clients that are added to or removed from an access rule. */
        Who: {
            /**
             * @description Any client that reaches a portal.
             * @default false
             */
            everyone?: boolean;
            /**
             * @description Initiators by name.
             * @default []
             */
            initiators?: components["schemas"]["IscsiName"][];
            /**
             * @description If all clients are allowed: these instead.
             * @default false
             */
            instead_of_everyone?: boolean;
            /**
             * @description Clients by network.
             * @default []
             */
            networks?: components["schemas"]["Subnet"][];
        };
        /** @description A host that is no head and decides which half of a split appliance survives. */
        Witness: {
            /**
             * Format: ip
             * @description Address of the host that runs `corosync-qnetd`.
             */
            address: string;
            /**
             * Format: uint16
             * @description Its port.
             * @default 5403
             */
            port?: number;
            /**
             * @description Addresses on the storage networks that a healthy head can reach, such as routers or
             *     clients. A head that does not reach all of them loses against one that does.
             * @default []
             */
            reach?: string[];
            /**
             * @description Heads and witness authenticate each other by certificates.
             * @default true
             */
            tls?: boolean;
        };
        /** @description A voting witness. */
        WitnessView: {
            /** @description Its address. */
            address: string;
            /** @description Whether its vote counts at every head that is up, if known. */
            has_vote?: boolean | null;
            /**
             * Format: uint64
             * @description Start of the state, in milliseconds since 1970.
             */
            since_ms?: number | null;
            /** @description The reason, if known to this head. */
            why?: string | null;
            /** @description The heads at which it does not count. */
            without_vote: string[];
        };
        /** @description Long work on the devices of a pool. One form for all kinds. In bytes and seconds. */
        WorkView: {
            /**
             * Format: uint64
             * @description Mean bytes a second, if measured.
             */
            bytes_per_s?: number | null;
            /**
             * Format: uint64
             * @description Bytes done.
             */
            done: number;
            /** @description The group that is removed or expanded. */
            group?: string | null;
            /** @description `scrub`, `resilver`, `error scrub`, `removal` or `expansion`. */
            kind: string;
            /**
             * Format: uint64
             * @description Estimated remaining seconds at that rate.
             */
            remaining_s?: number | null;
            /**
             * Format: uint64
             * @description When it began, in seconds since 1970.
             */
            started: number;
            /** @description `running`, or `paused`: by an administrator, or an expansion until a resilver is complete. */
            state: string;
            /**
             * Format: uint64
             * @description Bytes in all.
             */
            total: number;
        };
        /** @description Writes of a pool are paused, and with them its administrative changes. */
        WritesWait: {
            /**
             * Format: uint64
             * @description Since when, in seconds since 1970.
             */
            since: number;
            /** @description Why. */
            why: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type AccessRule = components['schemas']['AccessRule'];
export type Advice = components['schemas']['Advice'];
export type Alert = components['schemas']['Alert'];
export type AlertTest = components['schemas']['AlertTest'];
export type Alerts = components['schemas']['Alerts'];
export type Answer = components['schemas']['Answer'];
export type Appliance = components['schemas']['Appliance'];
export type ApplianceApplied = components['schemas']['ApplianceApplied'];
export type ApplianceCheckReport = components['schemas']['ApplianceCheckReport'];
export type ApplianceFile = components['schemas']['ApplianceFile'];
export type ApplianceInput = components['schemas']['ApplianceInput'];
export type AppliancePlan = components['schemas']['AppliancePlan'];
export type AuditEntry = components['schemas']['AuditEntry'];
export type AuthkeySource = components['schemas']['AuthkeySource'];
export type Bmc = components['schemas']['Bmc'];
export type BookmarkView = components['schemas']['BookmarkView'];
export type Button = components['schemas']['Button'];
export type Change = components['schemas']['Change'];
export type ChangedExtent = components['schemas']['ChangedExtent'];
export type ChangesView = components['schemas']['ChangesView'];
export type ChapView = components['schemas']['ChapView'];
export type CheckView = components['schemas']['CheckView'];
export type CibChange = components['schemas']['CibChange'];
export type Claims = components['schemas']['Claims'];
export type Clients = components['schemas']['Clients'];
export type CopyView = components['schemas']['CopyView'];
export type DamageView = components['schemas']['DamageView'];
export type DedupView = components['schemas']['DedupView'];
export type DeviceGroup = components['schemas']['DeviceGroup'];
export type DeviceLoad = components['schemas']['DeviceLoad'];
export type DeviceView = components['schemas']['DeviceView'];
export type DiscoveryChapClear = components['schemas']['DiscoveryChapClear'];
export type DiscoveryChapSet = components['schemas']['DiscoveryChapSet'];
export type DiscoveryMutualSet = components['schemas']['DiscoveryMutualSet'];
export type DiscoveryRequest = components['schemas']['DiscoveryRequest'];
export type DiscoveryView = components['schemas']['DiscoveryView'];
export type DiskHealth = components['schemas']['DiskHealth'];
export type DiskView = components['schemas']['DiskView'];
export type Done = components['schemas']['Done'];
export type DrillBounds = components['schemas']['DrillBounds'];
export type DrillExpectation = components['schemas']['DrillExpectation'];
export type DrillInput = components['schemas']['DrillInput'];
export type DrillKind = components['schemas']['DrillKind'];
export type DrillReport = components['schemas']['DrillReport'];
export type DrillRound = components['schemas']['DrillRound'];
export type DrillView = components['schemas']['DrillView'];
export type DrillsReport = components['schemas']['DrillsReport'];
export type DropView = components['schemas']['DropView'];
export type DropsView = components['schemas']['DropsView'];
export type Event = components['schemas']['Event'];
export type ExclusionView = components['schemas']['ExclusionView'];
export type ExportView = components['schemas']['ExportView'];
export type FailingView = components['schemas']['FailingView'];
export type Failure = components['schemas']['Failure'];
export type FailureKind = components['schemas']['FailureKind'];
export type FaultView = components['schemas']['FaultView'];
export type Feed = components['schemas']['Feed'];
export type FenceDeviceView = components['schemas']['FenceDeviceView'];
export type Fencing = components['schemas']['Fencing'];
export type FileClientView = components['schemas']['FileClientView'];
export type FileLockView = components['schemas']['FileLockView'];
export type FileSystemActivity = components['schemas']['FileSystemActivity'];
export type FileSystemRates = components['schemas']['FileSystemRates'];
export type FilesystemChange = components['schemas']['FilesystemChange'];
export type FilesystemCheck = components['schemas']['FilesystemCheck'];
export type FilesystemCreate = components['schemas']['FilesystemCreate'];
export type FilesystemDestroy = components['schemas']['FilesystemDestroy'];
export type FilesystemExpireClient = components['schemas']['FilesystemExpireClient'];
export type FilesystemGet = components['schemas']['FilesystemGet'];
export type FilesystemInherit = components['schemas']['FilesystemInherit'];
export type FilesystemList = components['schemas']['FilesystemList'];
export type FilesystemOpenFiles = components['schemas']['FilesystemOpenFiles'];
export type FilesystemPromote = components['schemas']['FilesystemPromote'];
export type FilesystemRename = components['schemas']['FilesystemRename'];
export type FilesystemRequest = components['schemas']['FilesystemRequest'];
export type FilesystemRollback = components['schemas']['FilesystemRollback'];
export type FilesystemSet = components['schemas']['FilesystemSet'];
export type FilesystemShow = components['schemas']['FilesystemShow'];
export type FilesystemUserspace = components['schemas']['FilesystemUserspace'];
export type FilesystemView = components['schemas']['FilesystemView'];
export type FillView = components['schemas']['FillView'];
export type Finding = components['schemas']['Finding'];
export type FindingSeverity = components['schemas']['FindingSeverity'];
export type Fingerprint = components['schemas']['Fingerprint'];
export type ForecastView = components['schemas']['ForecastView'];
export type FrozenView = components['schemas']['FrozenView'];
export type GroupChange = components['schemas']['GroupChange'];
export type GroupFill = components['schemas']['GroupFill'];
export type GroupKind = components['schemas']['GroupKind'];
export type GroupRole = components['schemas']['GroupRole'];
export type GrowthView = components['schemas']['GrowthView'];
export type HardwareFault = components['schemas']['HardwareFault'];
export type Head = components['schemas']['Head'];
export type HeadAsked = components['schemas']['HeadAsked'];
export type HeadName = components['schemas']['HeadName'];
export type HeadView = components['schemas']['HeadView'];
export type HistoryEntry = components['schemas']['HistoryEntry'];
export type HoldView = components['schemas']['HoldView'];
export type HttpServer = components['schemas']['HttpServer'];
export type Hypervisor = components['schemas']['Hypervisor'];
export type Identity = components['schemas']['Identity'];
export type InterruptedView = components['schemas']['InterruptedView'];
export type IscsiName = components['schemas']['IscsiName'];
export type Kerberos = components['schemas']['Kerberos'];
export type KeyBytes = components['schemas']['KeyBytes'];
export type KeyChange = components['schemas']['KeyChange'];
export type KeyCreate = components['schemas']['KeyCreate'];
export type KeyInherit = components['schemas']['KeyInherit'];
export type KeyLoad = components['schemas']['KeyLoad'];
export type KeyLocation = components['schemas']['KeyLocation'];
export type KeyRequest = components['schemas']['KeyRequest'];
export type KeySettings = components['schemas']['KeySettings'];
export type KeyStatus = components['schemas']['KeyStatus'];
export type KeyUnload = components['schemas']['KeyUnload'];
export type KeyView = components['schemas']['KeyView'];
export type Layer = components['schemas']['Layer'];
export type LeastSeverity = components['schemas']['LeastSeverity'];
export type LeftOutView = components['schemas']['LeftOutView'];
export type Leg = components['schemas']['Leg'];
export type LegGroup = components['schemas']['LegGroup'];
export type LegGroupKind = components['schemas']['LegGroupKind'];
export type LegState = components['schemas']['LegState'];
export type LegWitness = components['schemas']['LegWitness'];
export type Legs = components['schemas']['Legs'];
export type Link = components['schemas']['Link'];
export type LinkView = components['schemas']['LinkView'];
export type Locate = components['schemas']['Locate'];
export type Login = components['schemas']['Login'];
export type Mail = components['schemas']['Mail'];
export type MailTls = components['schemas']['MailTls'];
export type Metrics = components['schemas']['Metrics'];
export type Move = components['schemas']['Move'];
export type MovedBytes = components['schemas']['MovedBytes'];
export type NbdExport = components['schemas']['NbdExport'];
export type NbdExportDocument = components['schemas']['NbdExportDocument'];
export type NbdList = components['schemas']['NbdList'];
export type NbdRequest = components['schemas']['NbdRequest'];
export type NbdUnexport = components['schemas']['NbdUnexport'];
export type NbdView = components['schemas']['NbdView'];
export type Network = components['schemas']['Network'];
export type NewPool = components['schemas']['NewPool'];
export type NewSnapshot = components['schemas']['NewSnapshot'];
export type NewToken = components['schemas']['NewToken'];
export type NewUser = components['schemas']['NewUser'];
export type Obstacle = components['schemas']['Obstacle'];
export type OpenFileView = components['schemas']['OpenFileView'];
export type OpenFilesView = components['schemas']['OpenFilesView'];
export type OpenView = components['schemas']['OpenView'];
export type Operation = components['schemas']['Operation'];
export type Outcome = components['schemas']['Outcome'];
export type Outlet = components['schemas']['Outlet'];
export type Overview = components['schemas']['Overview'];
export type OwnDisk = components['schemas']['OwnDisk'];
export type OwnerKind = components['schemas']['OwnerKind'];
export type OwnerView = components['schemas']['OwnerView'];
export type OwnersView = components['schemas']['OwnersView'];
export type Partition = components['schemas']['Partition'];
export type Pdu = components['schemas']['Pdu'];
export type Peer = components['schemas']['Peer'];
export type Permissions = components['schemas']['Permissions'];
export type Place = components['schemas']['Place'];
export type PlanView = components['schemas']['PlanView'];
export type Planned = components['schemas']['Planned'];
export type PlannedChange = components['schemas']['PlannedChange'];
export type Pool = components['schemas']['Pool'];
export type PoolAdd = components['schemas']['PoolAdd'];
export type PoolAddHead = components['schemas']['PoolAddHead'];
export type PoolAddress = components['schemas']['PoolAddress'];
export type PoolAttach = components['schemas']['PoolAttach'];
export type PoolClear = components['schemas']['PoolClear'];
export type PoolClose = components['schemas']['PoolClose'];
export type PoolCopyRate = components['schemas']['PoolCopyRate'];
export type PoolDestroy = components['schemas']['PoolDestroy'];
export type PoolDetach = components['schemas']['PoolDetach'];
export type PoolDiscardLeg = components['schemas']['PoolDiscardLeg'];
export type PoolEvent = components['schemas']['PoolEvent'];
export type PoolEvents = components['schemas']['PoolEvents'];
export type PoolFound = components['schemas']['PoolFound'];
export type PoolGet = components['schemas']['PoolGet'];
export type PoolHistory = components['schemas']['PoolHistory'];
export type PoolLeg = components['schemas']['PoolLeg'];
export type PoolLegMember = components['schemas']['PoolLegMember'];
export type PoolLegs = components['schemas']['PoolLegs'];
export type PoolLoad = components['schemas']['PoolLoad'];
export type PoolLogLevel = components['schemas']['PoolLogLevel'];
export type PoolName = components['schemas']['PoolName'];
export type PoolOffline = components['schemas']['PoolOffline'];
export type PoolOnline = components['schemas']['PoolOnline'];
export type PoolOverview = components['schemas']['PoolOverview'];
export type PoolPlan = components['schemas']['PoolPlan'];
export type PoolReadBalancing = components['schemas']['PoolReadBalancing'];
export type PoolRemove = components['schemas']['PoolRemove'];
export type PoolReplace = components['schemas']['PoolReplace'];
export type PoolReplaceDisk = components['schemas']['PoolReplaceDisk'];
export type PoolRequest = components['schemas']['PoolRequest'];
export type PoolScrub = components['schemas']['PoolScrub'];
export type PoolScrubSchedule = components['schemas']['PoolScrubSchedule'];
export type PoolSet = components['schemas']['PoolSet'];
export type PoolSetWitness = components['schemas']['PoolSetWitness'];
export type PoolSpace = components['schemas']['PoolSpace'];
export type PoolStatus = components['schemas']['PoolStatus'];
export type PoolSummary = components['schemas']['PoolSummary'];
export type PoolSurvives = components['schemas']['PoolSurvives'];
export type PoolToMake = components['schemas']['PoolToMake'];
export type PortalAdd = components['schemas']['PortalAdd'];
export type PortalRemove = components['schemas']['PortalRemove'];
export type PortalRequest = components['schemas']['PortalRequest'];
export type PortalSet = components['schemas']['PortalSet'];
export type PortalView = components['schemas']['PortalView'];
export type Portals = components['schemas']['Portals'];
export type PowerOffView = components['schemas']['PowerOffView'];
export type PowerSupply = components['schemas']['PowerSupply'];
export type PowerView = components['schemas']['PowerView'];
export type Privilege = components['schemas']['Privilege'];
export type Profile = components['schemas']['Profile'];
export type Program = components['schemas']['Program'];
export type Property = components['schemas']['Property'];
export type ProtocolView = components['schemas']['ProtocolView'];
export type Question = components['schemas']['Question'];
export type Quorum = components['schemas']['Quorum'];
export type QuorumRule = components['schemas']['QuorumRule'];
export type RateMax = components['schemas']['RateMax'];
export type RateView = components['schemas']['RateView'];
export type ReadBalancing = components['schemas']['ReadBalancing'];
export type Receiver = components['schemas']['Receiver'];
export type ReceiverTest = components['schemas']['ReceiverTest'];
export type ReceiverView = components['schemas']['ReceiverView'];
export type RecoveryView = components['schemas']['RecoveryView'];
export type Refusal = components['schemas']['Refusal'];
export type ReplacementView = components['schemas']['ReplacementView'];
export type ReplicateAccept = components['schemas']['ReplicateAccept'];
export type ReplicateDocument = components['schemas']['ReplicateDocument'];
export type ReplicatePromote = components['schemas']['ReplicatePromote'];
export type ReplicateRemove = components['schemas']['ReplicateRemove'];
export type ReplicateRequest = components['schemas']['ReplicateRequest'];
export type ReplicateRevoke = components['schemas']['ReplicateRevoke'];
export type ReplicateRun = components['schemas']['ReplicateRun'];
export type ReplicateSet = components['schemas']['ReplicateSet'];
export type ReplicateState = components['schemas']['ReplicateState'];
export type ReplicatedView = components['schemas']['ReplicatedView'];
export type Replication = components['schemas']['Replication'];
export type ReplicationGlance = components['schemas']['ReplicationGlance'];
export type ReplicationTrouble = components['schemas']['ReplicationTrouble'];
export type ReplicationView = components['schemas']['ReplicationView'];
export type Request = components['schemas']['Request'];
export type RequestActivity = components['schemas']['RequestActivity'];
export type RescueBegin = components['schemas']['RescueBegin'];
export type RescueCommand = components['schemas']['RescueCommand'];
export type RescueEnd = components['schemas']['RescueEnd'];
export type RescueRequest = components['schemas']['RescueRequest'];
export type RescueView = components['schemas']['RescueView'];
export type Retention = components['schemas']['Retention'];
export type Role = components['schemas']['Role'];
export type RolledBack = components['schemas']['RolledBack'];
export type Rule = components['schemas']['Rule'];
export type RuleView = components['schemas']['RuleView'];
export type Safeguards = components['schemas']['Safeguards'];
export type ScanView = components['schemas']['ScanView'];
export type ScheduleRemove = components['schemas']['ScheduleRemove'];
export type ScheduleRequest = components['schemas']['ScheduleRequest'];
export type ScheduleSet = components['schemas']['ScheduleSet'];
export type ScheduleView = components['schemas']['ScheduleView'];
export type ScrubAction = components['schemas']['ScrubAction'];
export type ScrubScheduleView = components['schemas']['ScrubScheduleView'];
export type Secret = components['schemas']['Secret'];
export type Selection = components['schemas']['Selection'];
export type SendWhat = components['schemas']['SendWhat'];
export type SentMessage = components['schemas']['SentMessage'];
export type ServerRequest = components['schemas']['ServerRequest'];
export type ServerStatus = components['schemas']['ServerStatus'];
export type Session = components['schemas']['Session'];
export type SessionView = components['schemas']['SessionView'];
export type Severity = components['schemas']['Severity'];
export type ShareView = components['schemas']['ShareView'];
export type SnapshotBookmarks = components['schemas']['SnapshotBookmarks'];
export type SnapshotClone = components['schemas']['SnapshotClone'];
export type SnapshotCreate = components['schemas']['SnapshotCreate'];
export type SnapshotDestroy = components['schemas']['SnapshotDestroy'];
export type SnapshotDestroyBookmark = components['schemas']['SnapshotDestroyBookmark'];
export type SnapshotDiff = components['schemas']['SnapshotDiff'];
export type SnapshotHold = components['schemas']['SnapshotHold'];
export type SnapshotHolds = components['schemas']['SnapshotHolds'];
export type SnapshotList = components['schemas']['SnapshotList'];
export type SnapshotName = components['schemas']['SnapshotName'];
export type SnapshotRelease = components['schemas']['SnapshotRelease'];
export type SnapshotRename = components['schemas']['SnapshotRename'];
export type SnapshotRequest = components['schemas']['SnapshotRequest'];
export type SnapshotSet = components['schemas']['SnapshotSet'];
export type SnapshotView = components['schemas']['SnapshotView'];
export type SpaceView = components['schemas']['SpaceView'];
export type Status = components['schemas']['Status'];
export type Step = components['schemas']['Step'];
export type Streamed = components['schemas']['Streamed'];
export type Subnet = components['schemas']['Subnet'];
export type Takeover = components['schemas']['Takeover'];
export type TargetAllow = components['schemas']['TargetAllow'];
export type TargetChapClear = components['schemas']['TargetChapClear'];
export type TargetChapSet = components['schemas']['TargetChapSet'];
export type TargetChapShow = components['schemas']['TargetChapShow'];
export type TargetCreate = components['schemas']['TargetCreate'];
export type TargetDeny = components['schemas']['TargetDeny'];
export type TargetDestroy = components['schemas']['TargetDestroy'];
export type TargetList = components['schemas']['TargetList'];
export type TargetMap = components['schemas']['TargetMap'];
export type TargetMutualSet = components['schemas']['TargetMutualSet'];
export type TargetRequest = components['schemas']['TargetRequest'];
export type TargetShow = components['schemas']['TargetShow'];
export type TargetUnmap = components['schemas']['TargetUnmap'];
export type TargetView = components['schemas']['TargetView'];
export type TimeoutWishes = components['schemas']['TimeoutWishes'];
export type Tls = components['schemas']['Tls'];
export type TokenView = components['schemas']['TokenView'];
export type TransferAbort = components['schemas']['TransferAbort'];
export type TransferBookmark = components['schemas']['TransferBookmark'];
export type TransferInterrupted = components['schemas']['TransferInterrupted'];
export type TransferReceive = components['schemas']['TransferReceive'];
export type TransferRequest = components['schemas']['TransferRequest'];
export type TransferSend = components['schemas']['TransferSend'];
export type TransferView = components['schemas']['TransferView'];
export type UnitView = components['schemas']['UnitView'];
export type UnusedDiskView = components['schemas']['UnusedDiskView'];
export type Ups = components['schemas']['Ups'];
export type UpsAddress = components['schemas']['UpsAddress'];
export type UserChange = components['schemas']['UserChange'];
export type UserView = components['schemas']['UserView'];
export type ValueChange = components['schemas']['ValueChange'];
export type VirtualMachine = components['schemas']['VirtualMachine'];
export type VolumeActivity = components['schemas']['VolumeActivity'];
export type VolumeChange = components['schemas']['VolumeChange'];
export type VolumeCreate = components['schemas']['VolumeCreate'];
export type VolumeDestroy = components['schemas']['VolumeDestroy'];
export type VolumeDiscardLog = components['schemas']['VolumeDiscardLog'];
export type VolumeFreeze = components['schemas']['VolumeFreeze'];
export type VolumeGet = components['schemas']['VolumeGet'];
export type VolumeInherit = components['schemas']['VolumeInherit'];
export type VolumeList = components['schemas']['VolumeList'];
export type VolumeName = components['schemas']['VolumeName'];
export type VolumePromote = components['schemas']['VolumePromote'];
export type VolumeRates = components['schemas']['VolumeRates'];
export type VolumeRename = components['schemas']['VolumeRename'];
export type VolumeRequest = components['schemas']['VolumeRequest'];
export type VolumeResize = components['schemas']['VolumeResize'];
export type VolumeRollback = components['schemas']['VolumeRollback'];
export type VolumeSet = components['schemas']['VolumeSet'];
export type VolumeShow = components['schemas']['VolumeShow'];
export type VolumeSpace = components['schemas']['VolumeSpace'];
export type VolumeThaw = components['schemas']['VolumeThaw'];
export type VolumeView = components['schemas']['VolumeView'];
export type When = components['schemas']['When'];
export type Who = components['schemas']['Who'];
export type Witness = components['schemas']['Witness'];
export type WitnessView = components['schemas']['WitnessView'];
export type WorkView = components['schemas']['WorkView'];
export type WritesWait = components['schemas']['WritesWait'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
