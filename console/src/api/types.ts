// The types of the API. Made by `npm run types` from `bulkhead head openapi`: not to be edited.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * @description Who may use an export. An empty rule allows loopback (and Unix sockets) only. If several lists
         *     have entries, a client must be in each.
         */
        AccessRule: {
            /** @description Anybody who reaches a portal. The lists are then not looked at. */
            everyone?: boolean;
            /**
             * @description NBD clients by a name in their certificates (a DNS name or an address); empty means that no
             *     name is asked for. iSCSI ignores it.
             */
            identities?: string[];
            /** @description iSCSI initiators by name; empty means any name. NBD ignores it. */
            initiators?: components["schemas"]["IscsiName"][];
            /** @description Clients by network; empty means any address. */
            networks?: components["schemas"]["Subnet"][];
        };
        /** @description What to do. */
        Advice: {
            /** @description What the console offers. */
            button?: components["schemas"]["Button"] | null;
            /** @description The command that does it, or says more. */
            command?: string | null;
            /** @description The device it is about, if it is about one. */
            device?: string | null;
            /** @description How much it matters. */
            severity: components["schemas"]["Severity"];
            /** @description What to do, in words. */
            what: string;
            /** @description Why: what is the matter. */
            why: string;
        };
        /** @description A condition that needs attention. */
        Alert: {
            /** @description The subject, such as `pool tank`. */
            about: string;
            /** @description The recommended action. */
            advice?: components["schemas"]["Advice"] | null;
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
        /** @description One answer. */
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
         * @description One appliance: the machines, networks and pools that belong together.
         *
         *     The same file lies on every head.
         */
        Appliance: {
            /**
             * @description What is known of the clients, to compare their patience with a takeover.
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
             * @description Hypervisors, or what manages them, by name; heads that are virtual machines refer to them.
             * @default {}
             */
            hypervisors?: {
                [key: string]: components["schemas"]["Hypervisor"];
            };
            /** @description How heads reach each other's disks. Needed where a pool has `groups`. */
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
            /** @description Which heads may act when they do not all see each other. Must be said for more than one head. */
            quorum?: components["schemas"]["Quorum"] | null;
            /**
             * @description How long to wait for what.
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
            /**
             * @description The third machine that remembers which disks of two heads hold everything (`bulkhead-witness`).
             *     Not to be confused with the one in `quorum`, which has a vote and no memory; it can be the same machine.
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
            /** @description What was learnt of each head. */
            heads: {
                [key: string]: components["schemas"]["HeadAsked"];
            };
            /** @description The file (TOML). */
            toml: string;
            /** @description How much the worst finding matters. */
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
            /** @description What to do. */
            changes: components["schemas"]["Change"][];
            /**
             * Format: int32
             * @description The exit code of the command.
             */
            exit_code: number;
            /** @description What stays although the file does not say it, and what a running server takes later. */
            notes: string[];
            /** @description What is in the way. */
            obstacles: components["schemas"]["Obstacle"][];
            /** @description Pools of legs that do not exist yet. A person makes them when the changes are made, and then Pacemaker is told of them. */
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
        /** @description Where the secret of the cluster comes from. */
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
        /** @description What the console offers to do about it. */
        Button: "replace_disk" | "clear" | "online" | "scrub" | "resume_scrub" | "space";
        /** @description One thing to do. */
        Change: {
            /** @constant */
            action: "write_file";
            /** @description Where. */
            head: components["schemas"]["HeadName"];
            /** @description Whether there is no such file yet. */
            is_new: boolean;
            /** @description In an existing file: lines that go, marked `-`, and come, marked `+`. */
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
            /** @description What goes. */
            gone: components["schemas"]["Portals"];
            /** @description Where it runs. */
            head: components["schemas"]["HeadName"];
            /** @description Even though clients came in by what goes. */
            in_use: boolean;
            /** @description What of this is new. */
            new: components["schemas"]["Portals"];
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
            /** @description Where it shall listen. */
            portals: components["schemas"]["Portals"];
        } | {
            /** @constant */
            action: "set_witness";
            /** @description Where it runs. */
            head: components["schemas"]["HeadName"];
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
            /** @description The witness, as `legs.toml` names it; none for both heads alone. */
            witness?: string | null;
        } | {
            /** @constant */
            action: "add_head";
            /** @description The head, as `legs.toml` names it. */
            coming: string;
            /** @description Where it runs. */
            head: components["schemas"]["HeadName"];
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
        } | {
            /** @constant */
            action: "attach_leg";
            /** @description A leg of its group, as `pool status` calls it. */
            beside: string;
            /** @description Where it runs. */
            head: components["schemas"]["HeadName"];
            /** @description The new one. */
            leg: string;
            /** @description Its pool. */
            pool: components["schemas"]["PoolName"];
        } | {
            /** @constant */
            action: "stop_resources";
            /** @description What Pacemaker calls them. */
            resources: string[];
        } | {
            /** @constant */
            action: "reload_corosync";
            /** @description The head that tells the others. */
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
            /** @description The head whose disks are away next. */
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
            /** @description What it comes to. */
            changes: components["schemas"]["CibChange"][];
        };
        /** @description What initiators prove to a target, and what it proves to them. Secrets are never part of an answer. */
        ChapView: {
            /** @description CHAP users; none means that no secret is asked for. */
            chap_users: string[];
            /** @description The initiators that may use a user's secret, where they are named. */
            initiators?: {
                [key: string]: components["schemas"]["IscsiName"][];
            };
            /** @description The user name by which the target proves itself. */
            mutual_user?: string | null;
            /** @description The target. */
            target: components["schemas"]["IscsiName"];
        };
        /** @description What a check of a file system found. */
        CheckView: {
            /**
             * Format: uint64
             * @description How much does not fit.
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
             * @description How long it took.
             */
            took_ms: number;
        };
        /** @description What happens to one thing that Pacemaker knows. */
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
        /**
         * @description How the disks of a pool are kept from a head that lost the pool and does not know it, such as one
         *     that was frozen.
         */
        Claims: "auto" | "reservations" | "locks";
        /** @description What is known of the clients. */
        Clients: {
            /**
             * Format: uint32
             * @description How long initiators queue I/O of a lost session before they report an error, in seconds:
             *     `node.session.timeo.replacement_timeout` of open-iscsi, or what multipath queues on top.
             * @default 120
             */
            replacement_timeout_s?: number;
        };
        /** @description A volume that was replicated into the pool. */
        CopyView: {
            /**
             * Format: uint64
             * @description Seconds since that moment; none if it is still to come by the clock of this head: then a clock is wrong.
             */
            age_s?: number | null;
            /**
             * Format: uint64
             * @description The moment whose contents it has, or had when it was promoted, in seconds since 1970.
             */
            contents_unix_s?: number | null;
            /** @description Where it would be served if it were promoted. */
            exports?: string[];
            /** @description Who the original is to its initiators. */
            identity?: components["schemas"]["Identity"] | null;
            /** @description A stream into it is just coming. */
            is_arriving?: boolean;
            /**
             * Format: uint64
             * @description Since when the sender does not replicate its original any more, which was renamed or destroyed there, in seconds since 1970.
             */
            orphaned_unix_s?: number | null;
            /**
             * Format: uint64
             * @description Since when it is no copy any more, in seconds since 1970.
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
             * @description Bytes from there on; 0 if that is not known.
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
        /** @description What deduplication saves in a pool. */
        DedupView: {
            /**
             * Format: uint64
             * @description How many times the blocks would take their space, in percent: 250 for 2.5.
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
            /** @description How they work together. */
            kind: components["schemas"]["GroupKind"];
            /** @description What they are for. */
            role: components["schemas"]["GroupRole"];
        };
        /** @description What a pool, a group or a device did. Counts of a group and of the pool are the sums of their devices'. */
        DeviceLoad: {
            /**
             * Format: uint64
             * @description Requests that devices are at, at this moment.
             */
            active: number;
            /**
             * Format: uint64
             * @description Bytes in use; 0 of a device in a group.
             */
            allocated: number;
            /** @description Members of a group. */
            members?: components["schemas"]["DeviceLoad"][];
            /** @description As [`DeviceView::name`]; the pool's. */
            name: string;
            /**
             * Format: uint64
             * @description Requests that wait to be sent to devices at this moment.
             */
            pending: number;
            /**
             * Format: uint64
             * @description Bytes read.
             */
            read_bytes: number;
            /** @description How many reads took from 2^n nanoseconds to twice that on a device, by n; zeros at the end are left out. */
            read_waits: number[];
            /**
             * Format: uint64
             * @description Reads.
             */
            reads: number;
            /**
             * Format: uint64
             * @description Bytes in all; 0 of a device in a group.
             */
            size: number;
            /** @description The same of writes. */
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
             * @description Blocks whose checksum did not match.
             */
            checksum_errors: number;
            /** @description Members of a group. */
            members?: components["schemas"]["DeviceView"][];
            /** @description Path, or the group's name such as `mirror-0`. */
            name: string;
            /** @description Why it is in this state, if something is wrong. */
            note?: string | null;
            /**
             * Format: uint64
             * @description Reads that failed.
             */
            read_errors: number;
            /**
             * Format: uint64
             * @description Bytes that the last scrub or resilver wrote to it because they were wrong or missing.
             * @default 0
             */
            repaired?: number;
            /** @description `data`, `log`, `cache` or `spare`. */
            role: string;
            /** @description `ONLINE`, `DEGRADED`, `FAULTED`, `OFFLINE`, `UNAVAIL`, `REMOVED`. */
            state: string;
            /**
             * Format: uint64
             * @description Writes that failed.
             */
            write_errors: number;
        };
        /** @description Forget users and secrets; without any user everybody may ask. */
        DiscoveryChapClear: {
            /**
             * @description Even though no secret is asked for afterwards: everybody may ask.
             * @default false
             */
            no_secret?: boolean;
            /** @description One user, or all with the mutual secret. */
            user?: string | null;
        };
        /** @description Ask initiators for a name and a secret. */
        DiscoveryChapSet: {
            /** @description Its secret. */
            secret: components["schemas"]["Secret"];
            /** @description The initiator's user name. */
            user: string;
        };
        /** @description Answer the challenges of initiators that want proof, too. */
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
        /** @description What whoever asks for the targets of a pool has to prove. Secrets are never part of an answer. */
        DiscoveryView: {
            /** @description CHAP users; none means that everybody may ask. */
            chap_users: string[];
            /** @description The user name by which we prove ourselves. */
            mutual_user?: string | null;
            /** @description The pool. */
            pool: string;
        };
        /** @description A disk of this head. */
        DiskView: {
            /** @description Its model. */
            model?: string | null;
            /** @description Its persistent path. */
            path: string;
            /**
             * Format: uint64
             * @description Its size in bytes.
             */
            size: number;
            /** @description Its user, such as `pool tank`. */
            used_by?: string | null;
        };
        /** @description It is as asked. */
        Done: {
            /** @description Whether anything had to be changed; `false` means that it was already so. */
            changed: boolean;
            /**
             * @description The names of what was destroyed, or of a dry run of what would be, where several can be. What is below a dataset
             *     comes after it.
             */
            destroyed?: string[];
            /** @description The names of what was made, where several can be. */
            made?: string[];
            /** @description What was done, or was already so. */
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
        /** @description Something that happened to a pool. */
        Event: {
            /**
             * Format: uint64
             * @description Time of the measurement, in milliseconds since 1970.
             */
            at_ms: number;
            /** @description The device it is about, if it is about one. */
            device?: string | null;
            /**
             * @description `imported`, `exported`, `state`, `errors`, `checksum`, `joined`, `left`, `spare`, `scan`, `key`,
             *     `space`, `no_space`, `suspended`, `resumed`; of legs `leg_current`, `leg_failing`, `leg_stale`, `leg_copying`,
             *     `leg_faulted`, `leg_divergent`, `member_lost`, `member_back`.
             */
            kind: string;
            /** @description What happened, in a sentence. */
            message: string;
            /**
             * Format: uint64
             * @description Its place in the pool's history of events, from 1 on.
             */
            number: number;
        };
        /** @description What clients of a protocol can connect to. */
        ExportView: {
            /** @description Its name. */
            name: string;
            /** @description Sessions now. */
            sessions?: components["schemas"]["SessionView"][];
            /** @description The volumes that it shows. */
            volumes: components["schemas"]["VolumeName"][];
        };
        /** @description A device that should be replaced. */
        FailingView: {
            /**
             * Format: uint64
             * @description Blocks whose checksum did not match.
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
        /** @description A failed request as it travels and as it is printed. */
        Failure: {
            /** @description What to do, if something can be done. */
            advice?: string | null;
            /** @description What scripts match on. */
            kind: components["schemas"]["FailureKind"];
            /** @description What happened, outermost step first, causes joined by `: `. */
            message: string;
        };
        /** @description Kinds of failure. The numbers are the exit codes of the command line and are stable. */
        FailureKind: "failed" | "usage" | "not_found" | "exists" | "busy" | "needs_confirmation" | "unreachable" | "unavailable" | "no_space" | "denied";
        /** @description Something in a file system that does not fit. */
        FaultView: {
            /**
             * Format: uint64
             * @description The number of the object that it is about, as `zdb` takes it.
             */
            object: number;
            /** @description Its path in the file system, if one leads to it. */
            path?: string | null;
            /** @description What is wrong, in a sentence without its subject. */
            what: string;
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
             * @description The head's baseboard management controller. For a virtual machine: that of the machine which
             *     runs it, and all guests there die.
             * @default null
             */
            bmc?: components["schemas"]["Bmc"] | null;
            /**
             * Format: uint32
             * @description Wait before this head is powered off, in seconds (Pacemaker knows no less). With two heads exactly one has a
             *     longer delay: when both are well and do not see each other, that one survives. Prefer the head
             *     that serves fewer pools, because a crash of the other is then taken over without the wait.
             * @default 0
             */
            delay_s?: number;
            /**
             * @description The outlets of its power supplies, or of the machine that runs it: all of them must be off.
             * @default []
             */
            outlets?: components["schemas"]["Outlet"][];
            /**
             * @description What the head is to its hypervisor, where it is a virtual machine.
             * @default null
             */
            virtual_machine?: components["schemas"]["VirtualMachine"] | null;
        };
        /** @description An NFS client, and how much it has in a file system. */
        FileClientView: {
            /** @description Its address; of a client of version 4 with an IPv6 address its network (/64). */
            address: string;
            /** @description Which it is, for `filesystem expire-client`. */
            client: string;
            /** @description Its lease is over: whoever wants what it has gets it. */
            expired?: boolean;
            /**
             * Format: uint64
             * @description Locked ranges.
             */
            locks: number;
            /** @description What it calls itself. */
            name: string;
            /**
             * Format: uint64
             * @description Opens.
             */
            opens: number;
            /**
             * Format: uint64
             * @description For how many seconds it was not heard of.
             */
            silent_s: number;
            /** @description The version of NFS: `3`, `4.0`, or `4.1+` for 4.1 and 4.2. */
            version: string;
            /**
             * Format: uint64
             * @description Ranges that it waits for. Only clients of version 3 tell that they wait.
             */
            waiting: number;
        };
        /** @description A range of a file that is locked or waited for. */
        FileLockView: {
            /** @description Whose it is. */
            client: string;
            /** @description Nobody else may have it. */
            exclusive: boolean;
            /**
             * Format: uint64
             * @description How many bytes; nothing: to the end of the file, wherever that is.
             */
            length?: number | null;
            /**
             * Format: uint64
             * @description The first byte.
             */
            offset: number;
            /** @description Which process there, and where, as the client says. Only clients of version 3 say it. */
            process?: string | null;
        };
        /** @description What clients did in a file system since the server began to share it. */
        FileSystemActivity: {
            /**
             * Format: uint64
             * @description Requests that failed by an error of I/O, which are counted nowhere else.
             */
            errors: number;
            /** @description The file system. Empty: all that are too many to be counted by themselves, together. */
            name: string;
            /** @description All others: names, attributes, opens, locks, and having durable what was written before. */
            others: components["schemas"]["RequestActivity"];
            /** @description Requests that read from files. */
            reads: components["schemas"]["RequestActivity"];
            /** @description Requests that wrote to files, with waiting for durability where they asked for it. */
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
         * @description Look for names, files and directories of a file system that do not fit together
         *
         *     A scrub checks that what is stored is what was written. This checks that it makes sense: that
         *     every name leads to a file, every file has as many names as it says, and every directory hangs
         *     below the root. It reads a snapshot, which it takes and destroys, so that clients go on. Nothing
         *     is repaired.
         */
        FilesystemCheck: {
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Make a file system */
        FilesystemCreate: {
            /** @description An existing file system is success. */
            exist_ok: boolean;
            /**
             * Format: uint32
             * @description Number of the group that its root directory belongs to.
             */
            group: number;
            /** @description A key of its own. Without one it is as its parent is: plain, or encrypted with the parent's. */
            key?: components["schemas"]["KeySettings"] | null;
            /** @description Permissions of its root directory. */
            mode: components["schemas"]["Permissions"];
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /**
             * Format: uint32
             * @description Number of the user that its root directory belongs to.
             */
            owner: number;
            /** @description Make missing parents. */
            parents: boolean;
            /** @description Native (`sharenfs`, `quota`, `recordsize`, ...) and user (`a:b`) properties. */
            properties: {
                [key: string]: string;
            };
        };
        /** @description Destroy a file system, or what holds volumes */
        FilesystemDestroy: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show what would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
            /** @description Its snapshots too, and all that is below it: file systems, volumes, and their snapshots */
            recursive: boolean;
            /** @description Even though it is shared, or in use: clients lose it, and what is below it is exported no more */
            shared: boolean;
        };
        /**
         * @description Take away what an NFS client has open and locked, as if it had been silent for too long
         *
         *     For a client that is gone for good and has locks that others wait for. It loses all that it has in
         *     this pool, in other file systems too. Whoever waits for a lock of it gets that at once. A client that
         *     still lives may connect again: its programs that had locks get errors. To keep it out, change
         *     `sharenfs`.
         */
        FilesystemExpireClient: {
            /** @description The client, as `filesystem open-files` tells it */
            client: string;
            /**
             * @description Although it was heard of within the last 20 seconds, and so may still live
             * @default false
             */
            in_use?: boolean;
            /** @description A file system that it uses */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Read properties */
        FilesystemGet: {
            /** @description The file system, or a pool for what its file systems inherit */
            name: string;
            /** @description Which properties [default: all] */
            names: string[];
        };
        /** @description Forget a property's own value, so that the parent's holds */
        FilesystemInherit: {
            /** @description The file system */
            name: string;
            /** @description Which properties */
            names: string[];
        };
        /**
         * @description Show which files NFS clients have open and locked, and who waits for a lock
         *
         *     Clients of version 3 open nothing: only their locks are known.
         */
        FilesystemOpenFiles: {
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Swap roles with the file system this one was cloned from, so that that one can be destroyed */
        FilesystemPromote: {
            /**
             * @description Refuse what would change a property that only an admin may set. A head sets it for those who are none.
             * @default false
             */
            keep_rights?: boolean;
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Give a file system another name in its pool; what is below it moves along, and open files stay open */
        FilesystemRename: {
            /** @description The file system */
            from: components["schemas"]["VolumeName"];
            /**
             * @description Refuse what would change a property that only an admin may set. A head sets it for those who are none.
             * @default false
             */
            keep_rights?: boolean;
            /** @description Its new name */
            to: components["schemas"]["VolumeName"];
        };
        /** @description Requests about file systems. */
        FilesystemRequest: "list" | {
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
            open_files: components["schemas"]["FilesystemOpenFiles"];
        } | {
            expire_client: components["schemas"]["FilesystemExpireClient"];
        };
        /**
         * @description Take a file system back to a snapshot, also while it is shared and in use
         *
         *     What was written since the snapshot is lost. Clients wait meanwhile and stay connected. Files that
         *     were made since are gone for them (ESTALE); files that they have open and that the snapshot has are
         *     as they were then.
         */
        FilesystemRollback: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /**
             * @description Destroy the file system's newer snapshots
             * @default false
             */
            destroy_newer?: boolean;
            /** @description Show what would be destroyed, and change nothing */
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
        /** @description Show one file system with its properties, how it is shared, and who uses it */
        FilesystemShow: {
            /** @description The file system */
            name: components["schemas"]["VolumeName"];
        };
        /** @description A file system. */
        FilesystemView: {
            /**
             * Format: uint64
             * @description Space that it could still take.
             */
            available: number;
            /** @description Who uses it now, in words. */
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
             * @description Space that its files occupy.
             */
            referenced: number;
            /** @description Who may use it over the network. */
            share: components["schemas"]["ShareView"];
            /**
             * @description Where its space goes, and its limits.
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
             * @description Space that it, its snapshots and what is below it occupy.
             */
            used: number;
        };
        /** @description One mistake. */
        Finding: {
            /** @description Its kind. */
            code: string;
            /** @description What to do. */
            mend: string;
            /** @description How much it matters. */
            severity: components["schemas"]["FindingSeverity"];
            /** @description What was found. */
            what: string;
            /** @description Where it is. */
            where: components["schemas"]["Place"];
            /** @description What goes wrong otherwise. */
            why: string;
        };
        /** @description How much a finding matters. */
        FindingSeverity: "hint" | "warning" | "error";
        /** @description The certificate of a pool, known by its fingerprint. */
        Fingerprint: string;
        /** @description A volume whose writes by clients wait. Times are in milliseconds since 1970. */
        FrozenView: {
            /**
             * Format: uint64
             * @description Since when.
             */
            since_ms: number;
            /**
             * Format: uint64
             * @description When it ends by itself.
             */
            until_ms: number;
        };
        /** @description How the devices of one group work together. */
        GroupKind: "stripe" | "mirror" | {
            raidz: {
                /**
                 * Format: uint8
                 * @description 1, 2 or 3.
                 */
                parity: number;
            };
        };
        /** @description What a group is for. */
        GroupRole: "data" | "log" | "cache" | "spare";
        /** @description One head: a machine that can serve pools. */
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
             * @description By which the other heads know what lends its disks: what `bulkhead leg-server fingerprint` prints there, 64 hex
             *     digits. Needed where a pool has `groups`.
             */
            fingerprint?: string | null;
            /** @description Its interfaces, by network. */
            links: {
                [key: string]: components["schemas"]["Link"];
            };
            /**
             * @description Its memory, such as `64G`; compared with what the pools need after a takeover. Absent:
             *     what the machine says.
             * @default null
             */
            memory?: string | null;
            /**
             * Format: uint32
             * @description Corosync's `nodeid`, 1 or more. Never changes, never used again for another machine.
             */
            number: number;
        };
        /** @description Whether a head was asked. */
        HeadAsked: {
            /** @description Whether it answered. */
            asked: boolean;
            /** @description What it did not tell, in words. */
            unknown?: string[] | null;
            /** @description Why it was not asked, or did not answer. */
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
            /** @description `online`, `standby`, `offline`, `unclean` or `unknown`. */
            state: string;
        };
        /** @description What switches virtual machines: a hypervisor, or what manages several. */
        Hypervisor: {
            /**
             * Format: ip
             * @description Its address. Agents that find it by themselves, such as `fence_xvm`, need none.
             */
            address?: string | null;
            /** @description The fence agent that knows it, such as `fence_virsh`, `fence_pve` or `fence_vmware_rest`. */
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
            /** @description Name of an account that may power the machines off. */
            user?: string | null;
        };
        /**
         * @description Value of `bulkhead:identity`. Made once from 16 random bytes; only a locally set value
         *     counts, so that a clone does not pass for its origin.
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
            /** @description What the sender needs to go on; none if nothing was interrupted. */
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
             * @description File on each head with the keys of the pool's services, such as `nfs/NAME@REALM` for a name of its addresses, readable
             *     by root only. It is read for each client.
             */
            keytab_file: string;
        };
        /**
         * @description A key as its owner keeps it. It travels as hex digits, since it may be any bytes. It is wiped
         *     when dropped, and never printed.
         */
        KeyBytes: string;
        /** @description Give an encrypted dataset another key. */
        KeyChange: {
            /** @description The new key. */
            key: components["schemas"]["KeySettings"];
            /** @description Which. */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Make an encrypted parent: volumes that are made below it share its key */
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
             * @description The key; none looks where the key is kept.
             * @default null
             */
            key?: components["schemas"]["KeyBytes"] | null;
            /**
             * @description Look there, this time only.
             * @default null
             */
            location?: components["schemas"]["KeyLocation"] | null;
            /** @description Which. */
            name: components["schemas"]["VolumeName"];
        };
        /** @description Where a key is. As text: `prompt`, `file:///PATH`, or `command:PROGRAM ARGUMENT...`. */
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
        /** @description A key that a dataset shall have. */
        KeySettings: {
            /**
             * @description `aes-256-gcm` and others; none takes ZFS's default. Means nothing in a change.
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
             * @description The key; none reads it at its place now.
             * @default null
             */
            key?: components["schemas"]["KeyBytes"] | null;
            /** @description Where it is found later. */
            location: components["schemas"]["KeyLocation"];
        };
        /** @description Show which keys there are, which are missing, and where they are kept */
        KeyStatus: {
            /**
             * @description Only of this dataset.
             * @default null
             */
            name?: components["schemas"]["VolumeName"] | null;
        };
        /** @description Forget a loaded key; refused while a volume that it opens is in use */
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
            /** @description Where the key is kept, in the order in which it is looked for. */
            locations?: string[];
            /** @description The dataset whose key it shares; none if the key is its own. */
            shared_with?: string | null;
        };
        /** @description A copy of a device of a pool, which is not used. */
        LeftOutView: {
            /** @description Where it is. */
            device: string;
            /** @description The device that is used; none where the pool is opened without it. */
            used?: string | null;
        };
        /** @description A disk of a head, as `HEAD:DISK`. */
        Leg: string;
        /** @description Disks on different heads that hold the same, or parity of each other. */
        LegGroup: {
            /** @description How they work together. */
            kind: components["schemas"]["LegGroupKind"];
            /** @description The disks, as `HEAD:DISK`, such as `left:bay1`. */
            legs: components["schemas"]["Leg"][];
        };
        /** @description How the disks of a group work together. */
        LegGroupKind: "mirror" | "raidz1";
        /** @description What a leg has. */
        LegState: "current" | "failing" | "stale" | "copying" | "faulted" | "divergent";
        /** @description The third machine that remembers which disks of two heads hold everything. */
        LegWitness: {
            /** @description Where `bulkhead-witness` listens; more than one where it has links in several networks. */
            addresses: string[];
            /** @description What `bulkhead-witness identity` prints there: SHA-256 of its certificate, 64 hex digits. */
            fingerprint: string;
            /**
             * Format: uint32
             * @description Its number, which no head has. Never changes, never used again for another machine.
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
             * @description TCP port on which heads tell each other which disks hold everything.
             * @default 7071
             */
            member_port?: number;
            /**
             * @description Networks between the heads that carry the writes to other heads' disks, best first. Every head has a link in
             *     each. Name two: while one fails, the other one goes on.
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
            /** @description The head that reports the state. */
            from: string;
            /** @description The network. */
            network: string;
            /** @description `up`, `down` or `unknown`. */
            state: string;
            /** @description The other head. */
            to: string;
        };
        /** @description A name and a password. */
        Login: {
            /** @description Their password. */
            password: string;
            /** @description The user. */
            user: string;
        };
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
        /** @description Offer a volume; changes an export of the same name. */
        NbdExport: {
            /** @description Who may connect besides loopback and Unix sockets. */
            access: components["schemas"]["AccessRule"];
            /** @description Export name; none takes the volume's name. */
            name?: string | null;
            /** @description Writes are refused. */
            read_only: boolean;
            /** @description Volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description A volume's NBD export. */
        NbdExportDocument: {
            /** @description Who may connect besides loopback and Unix sockets. */
            access?: components["schemas"]["AccessRule"];
            /** @description Export name. */
            name: string;
            /** @description Writes are refused. */
            read_only?: boolean;
        };
        /** @description Requests about NBD exports. */
        NbdRequest: "list" | {
            export: components["schemas"]["NbdExport"];
        } | {
            unexport: components["schemas"]["NbdUnexport"];
        };
        /** @description Stop offering a volume */
        NbdUnexport: {
            /**
             * @description Even though clients are connected: their connections end
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
            /** @description The volume behind it. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description One network, one broadcast domain. */
        Network: {
            /**
             * Format: uint8
             * @description Number of the heartbeat link that runs here, 0 to 7; absent: none. Keep the numbers of
             *     links that exist: changing one takes the link down.
             */
            heartbeat?: number | null;
            /**
             * Format: uint32
             * @description Largest packet that every interface and switch of the network carries, in bytes.
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
        /** @description A snapshot to be made, `POOL/NAME@SNAPSHOT`; or `POOL@SNAPSHOT`, which stands for all that is in a pool. */
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
        /** @description Why nothing can be done as long as the cluster runs. */
        Obstacle: {
            /** @description What to do. */
            mend: string;
            /** @description What is in the way. */
            what: string;
        };
        /** @description A file that is open or locked. */
        OpenFileView: {
            /**
             * Format: uint64
             * @description How many locked ranges there are.
             */
            lock_count: number;
            /** @description Locked ranges; the first 50. */
            locks?: components["schemas"]["FileLockView"][];
            /**
             * Format: uint64
             * @description The number of its object, as `zdb` takes it.
             */
            object: number;
            /** @description It is in a snapshot. */
            of_snapshot?: boolean;
            /**
             * Format: uint64
             * @description How many opens there are.
             */
            open_count: number;
            /** @description Who has it open; the first 50. */
            opens?: components["schemas"]["OpenView"][];
            /** @description Its path in the file system, if one was found soon enough. */
            path?: string | null;
            /** @description Ranges that clients wait for; the first 50. */
            waiting?: components["schemas"]["FileLockView"][];
        };
        /** @description What NFS clients have open and locked in a file system. */
        OpenFilesView: {
            /** @description Clients that have something open or locked there, or wait for a lock. */
            clients: components["schemas"]["FileClientView"][];
            /**
             * Format: uint64
             * @description How many files are open or locked.
             */
            file_count: number;
            /** @description The first 500 of them. */
            files: components["schemas"]["OpenFileView"][];
            /** @description The file system. */
            name: string;
        };
        /** @description An open of a file. */
        OpenView: {
            /** @description Whose it is. */
            client: string;
            /** @description Others cannot open it for reading. */
            denies_read?: boolean;
            /** @description Others cannot open it for writing. */
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
             * @description By this number heads and witness know it. Each disk of the appliance has one of its own; it stays with the disk,
             *     never changes, and is never used again.
             */
            number: number;
            /** @description Where it is on the head, such as `/dev/disk/by-id/...`. */
            path: string;
        };
        /** @description A partition. */
        Partition: {
            /** @description What it holds, if that is known: `ext4`, `xfs`, `ntfs`, `LUKS`, ... */
            contents?: string | null;
            /** @description Its name in a GPT. */
            name?: string;
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
            /** @description Its type: a GUID of a GPT, two hex digits of an MBR, or nothing. */
            type: string;
        };
        /** @description A power distribution unit. */
        Pdu: {
            /**
             * Format: ip
             * @description Its address.
             */
            address: string;
            /** @description The fence agent that knows the model, such as `fence_apc_snmp`. */
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
            /** @description The volume that it may write, or the dataset below which it may write. */
            below: components["schemas"]["VolumeName"];
            /**
             * @description It may send file systems, too. Their streams are for senders that are trusted with this head: ZFS checks little of what is in
             *     them.
             */
            files?: boolean;
            /** @description Its certificate. */
            fingerprint: components["schemas"]["Fingerprint"];
            /**
             * @description What stays of it here, whatever it asks for.
             * @default {
             *       "days": 7,
             *       "newest": 8
             *     }
             */
            retention?: components["schemas"]["Retention"];
        };
        /** @description Permissions, written in octal as `chmod` takes them. */
        Permissions: string;
        /** @description Where a finding points. */
        Place: {
            /** @description The key, such as `heads.left.fencing.delay_s`; empty for the file as a whole. */
            key: string;
            /**
             * Format: uint32
             * @description Its line, from 1, or that of the table where it is missing.
             */
            line?: number | null;
        };
        /** @description The result of a plan; an invalid file has no plan. */
        Planned: components["schemas"]["AppliancePlan"] | components["schemas"]["ApplianceCheckReport"];
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
             * @description Disks of heads that cache reads, besides `groups`, as `HEAD:DISK`. Nothing is lost with one. Not possible
             *     yet.
             * @default []
             */
            cache?: components["schemas"]["Leg"][];
            /**
             * @description How its disks are kept from a head that lost the pool: `auto`, `reservations` or `locks`.
             * @default auto
             */
            claims?: components["schemas"]["Claims"];
            /**
             * @description Its devices, by names that are the same on every head, such as `/dev/disk/by-id/...`.
             *     Only these are searched. For disks that all heads reach; a pool has either these or `groups`.
             * @default []
             */
            disks?: string[];
            /**
             * @description Its devices, where each head has disks of its own: groups of disks on different heads that hold the same, or
             *     parity of each other.
             * @default []
             */
            groups?: components["schemas"]["LegGroup"][];
            /** @description The heads that may serve it, best first after its home. Absent: all. */
            heads?: string[] | null;
            /** @description The head it starts on when it may choose. It does not move back there by itself. */
            home?: string | null;
            /** @description Kerberos for its clients, which use it where a share says so. Absent: none. */
            kerberos?: components["schemas"]["Kerberos"] | null;
            /**
             * @description Devices for its intent log, besides `groups`. Mirrors over heads: what is acknowledged lies there for seconds. Not
             *     possible yet.
             * @default []
             */
            log?: components["schemas"]["LegGroup"][];
            /** @description The same as `tls.nbd`. */
            nbd_tls?: components["schemas"]["Tls"] | null;
            /**
             * Format: uint32
             * @description By this number heads and witness know it, where it has `groups`. Never changes, never used again for another pool.
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
             * @description TLS for its clients, by the name of their protocol, such as `nbd`. They must use it then; those of `nfs` where a share
             *     says so. A protocol that is not named is in the clear.
             * @default {}
             */
            tls?: {
                [key: string]: components["schemas"]["Tls"];
            };
        };
        /** @description Widen the pool. */
        PoolAdd: {
            /** @description What to add. */
            groups: components["schemas"]["DeviceGroup"][];
            /**
             * @description Also if the new groups survive less than those of the pool.
             * @default false
             */
            mismatched?: boolean;
            /**
             * @description Also if it carries the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
        };
        /** @description Have a third head remember which legs of a pool hold everything, and serve the pool from then on. */
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
        /** @description Make a mirror of `existing` and `new`, or widen one. */
        PoolAttach: {
            /** @description Device of the pool. A leg on one of several heads as `pool status` calls it, such as `left:/dev/disk/by-id/x`. */
            existing: string;
            /** @description Device to add. A leg as `legs.toml` of each head names it. */
            new: string;
            /**
             * @description Also if it carries the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
        };
        /** @description Forget errors and resume a suspended pool. */
        PoolClear: {
            /** @description One device, or all. */
            device?: string | null;
            /**
             * @description A suspended pool may go on without the devices that are still gone, although they may hold what was
             *     acknowledged and the others lack. That is lost then.
             * @default false
             */
            missing_devices_are_not_newer?: boolean;
        };
        /** @description Drain the sessions and export; a server ends. */
        PoolClose: {
            /**
             * @description Even though clients are connected: their sessions end.
             * @default false
             */
            in_use?: boolean;
        };
        /** @description Destroy the pool; a server ends. The caller has seen the confirmation word. */
        PoolDestroy: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show what would be destroyed, and change nothing */
            dry_run?: boolean;
            /**
             * @description Even though clients are connected: their sessions end.
             * @default false
             */
            in_use?: boolean;
        };
        /** @description Take one side off a mirror. */
        PoolDetach: {
            /** @description Device of the pool. */
            device: string;
        };
        /** @description Give up what is on a leg with another history: the pool is copied to it in full. */
        PoolDiscardLeg: {
            /** @description The leg, as `pool status` calls it. */
            leg: string;
        };
        /** @description A streamed event of a pool. */
        PoolEvent: {
            /** @description The event. */
            event: components["schemas"]["Event"];
            /** @description The pool. */
            pool: string;
        };
        /** @description What happened to it. */
        PoolEvents: {
            /**
             * Format: uint64
             * @description Only what has a higher number.
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
            /** @description Devices that carry its labels. */
            devices: string[];
            /** @description Its GUID, in decimal. */
            guid: string;
            /** @description Health, if the pool is open. */
            health?: string | null;
            /** @description Host that used it last. */
            last_host?: string | null;
            /** @description Copies of its devices, which are not used. */
            left_out?: components["schemas"]["LeftOutView"][];
            /** @description Devices that its labels name and that were not found. */
            missing?: string[];
            /** @description Its name. */
            name: components["schemas"]["PoolName"];
            /** @description The head that serves it. */
            served_by?: string | null;
            /**
             * Format: uint64
             * @description Capacity, if the pool is open.
             */
            size?: number | null;
            /** @description The space as volumes have it, if the pool is open. */
            space?: components["schemas"]["PoolSpace"] | null;
            /** @description `served`, `exported`, `active`, `destroyed` or `damaged`. */
            state: string;
            /** @description Devices of which it is unclear whether they are its own: it is not opened until one is chosen. */
            unclear?: string[];
        };
        /** @description Read properties of the pool. */
        PoolGet: {
            /** @description Their names; empty means all. */
            names: string[];
        };
        /** @description A leg. */
        PoolLeg: {
            /**
             * Format: uint64
             * @description Bytes that were copied to it since it came back.
             */
            copied?: number | null;
            /** @description What the pool's owner calls it, as [`super::answer::DeviceView::name`]. */
            device: string;
            /**
             * Format: uint64
             * @description The number by which the members know it.
             */
            disk: number;
            /**
             * Format: uint
             * @description The group that it belongs to, from 0.
             */
            group: number;
            /** @description The head that has it. */
            head: string;
            /**
             * Format: uint64
             * @description The first transaction group of which something is missing.
             */
            lacks_since_group?: number | null;
            /**
             * Format: uint64
             * @description Bytes that it lacks still, at most.
             */
            left?: number | null;
            /** @description Its head and where it is there, such as `left:/dev/disk/by-id/x`. */
            name: string;
            /** @description Where it is on that head. */
            path: string;
            /**
             * Format: uint64
             * @description Seconds that the copy still takes at its present speed, at most.
             */
            remaining_s?: number | null;
            /**
             * Format: uint64
             * @description Since when, in milliseconds since 1970, if an owner saw it begin.
             */
            since_ms?: number | null;
            /** @description What it has. */
            state: components["schemas"]["LegState"];
            /**
             * Format: uint64
             * @description When one that is faulted is tried again, in milliseconds since 1970.
             */
            tried_again_ms?: number | null;
        };
        /** @description Who remembers: a head, or the witness. */
        PoolLegMember: {
            /** @description Whether it answers the pool's owner. */
            answers: boolean;
            /**
             * @description Whether it is about to be no member any more: the other head has not agreed to that yet.
             * @default false
             */
            is_leaving?: boolean;
            /** @description Whether it only remembers. */
            is_witness: boolean;
            /** @description Its name. */
            name: string;
            /** @description Why not. */
            why?: string | null;
        };
        /** @description The legs of a pool, and who remembers which of them hold everything. */
        PoolLegs: {
            /**
             * Format: uint64
             * @description Of the newest record: it grows with every owner.
             */
            epoch: number;
            /** @description In the order of `legs.toml`. */
            legs: components["schemas"]["PoolLeg"][];
            /** @description Those of the record, by name. */
            members: components["schemas"]["PoolLegMember"][];
            /** @description Members that `legs.toml` names, and the record does not: they have no vote. */
            not_on_record?: string[];
            /** @description Whether writes wait until it is on record that a leg failed, or for the last leg. */
            writes_wait: boolean;
        };
        /**
         * @description What a pool and its devices did since the pool was opened. All counts only grow: the difference between two looks is
         *     what happened in between.
         */
        PoolLoad: {
            /**
             * Format: uint64
             * @description Nanoseconds for which it was counted, on a clock that only goes forward: compare two looks by it.
             */
            counted_ns: number;
            /**
             * Format: uint32
             * @description The process that has the pool open: where another one has, it counts anew.
             */
            pid: number;
            /** @description Whether all I/O waits for devices. */
            suspended: boolean;
            /** @description The pool as a whole; its members are the groups and devices. */
            whole: components["schemas"]["DeviceLoad"];
        };
        /** @description The filter of the server's log. */
        PoolLogLevel: {
            /**
             * @description The new one; none: the present one is reported.
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
        };
        /** @description Use a device again. */
        PoolOnline: {
            /** @description Device of the pool. A leg on one of several heads as `pool status` calls it, such as `left:/dev/disk/by-id/x`. */
            device: string;
        };
        /** @description A pool in the overview. */
        PoolOverview: {
            /** @description Its addresses for clients. */
            addresses: string[];
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
        /** @description Evacuate and remove a device. */
        PoolRemove: {
            /** @description Device of the pool. */
            device: string;
        };
        /** @description Put `new` in the place of `old`. */
        PoolReplace: {
            /** @description Its successor; none means that the same path holds a new disk. Of a leg as `legs.toml` of each head names it now. */
            new?: string | null;
            /** @description Device of the pool. A leg on one of several heads as `pool status` calls it, such as `left:/dev/disk/by-id/x`. */
            old: string;
            /**
             * @description Also if it carries the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
        };
        /** @description Put a new disk in the place of a bad one, guided. Asked again, it goes on where it was. */
        PoolReplaceDisk: {
            /** @description The bad one; none for the only one that is bad. */
            device?: string | null;
            /**
             * @description Also if it carries the label of a pool that is not in use.
             * @default false
             */
            overwrite?: boolean;
            /**
             * @description Do it, and answer when the new disk holds everything; otherwise say what would be done.
             * @default false
             */
            perform?: boolean;
            /** @description Its successor; none for an unused disk that fits. */
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
            set: components["schemas"]["PoolSet"];
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
            /** @description What to do. */
            action: components["schemas"]["ScrubAction"];
            /** @description Answer when the scrub has ended. */
            wait: boolean;
        };
        /** @description Scrub on a schedule, or only on request. */
        PoolScrubSchedule: {
            /** @description When; none to forget the schedule. */
            when?: components["schemas"]["When"] | null;
        };
        /** @description Change properties of the pool. */
        PoolSet: {
            /** @description New values. */
            properties: {
                [key: string]: string;
            };
        };
        /** @description Have a witness remember which legs of a pool hold everything, or have both heads do so alone. */
        PoolSetWitness: {
            /** @description The witness, by its name in `legs.toml` of both heads; none for both heads alone. */
            witness?: string | null;
        };
        /** @description Space of a pool. In bytes. */
        PoolSpace: {
            /**
             * Format: uint64
             * @description What is left for snapshots, and for volumes beyond their reservations.
             */
            available: number;
            /**
             * Format: uint64
             * @description How full it is: with what is set aside, if a volume lives of what is left, else by what is written.
             */
            full_percent: number;
            /**
             * @description Whether a quota limits any of its datasets.
             * @default false
             */
            has_quota?: boolean;
            /**
             * Format: uint64
             * @description What clients may still write to volumes, and neither a reservation nor what is left has room for.
             */
            overcommitted: number;
            /**
             * Format: uint64
             * @description The sizes of all volumes.
             */
            promised: number;
            /**
             * Format: uint64
             * @description Writes of clients that were refused for lack of space since the server began.
             * @default 0
             */
            refused_writes?: number;
            /**
             * @description Whether some were refused lately.
             * @default false
             */
            refuses?: boolean;
            /**
             * Format: uint64
             * @description Set aside by reservations, and not written yet.
             */
            reserved: number;
            /**
             * Format: uint64
             * @description What its datasets can hold in all.
             */
            usable: number;
            /**
             * Format: uint64
             * @description What is written: contents of volumes, and what only snapshots hold.
             */
            written: number;
        };
        /** @description A pool in detail. */
        PoolStatus: {
            /** @description What to do, in this order; empty when all is well. */
            advice: components["schemas"]["Advice"][];
            /**
             * Format: uint64
             * @description Allocated bytes of it.
             */
            allocated: number;
            /** @description What is damaged beyond repair, the first hundred places. */
            damaged?: components["schemas"]["DamageView"][];
            /** @description What deduplication saves, if blocks were written with it. */
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
            /** @description Its legs, if they lie on several heads and a server has it open. */
            legs?: components["schemas"]["PoolLegs"] | null;
            /** @description Its name. */
            name: string;
            /** @description What it replicates to others, at a glance. */
            replication?: components["schemas"]["ReplicationGlance"][];
            /** @description The last or running scrub or resilver. */
            scan?: components["schemas"]["ScanView"] | null;
            /** @description When it is scrubbed, if on a schedule. */
            scrub_schedule?: components["schemas"]["ScrubScheduleView"] | null;
            /** @description Options that a server of it needs, so that all clients reach it; of a pool that has none. */
            server_options?: string[];
            /**
             * Format: uint64
             * @description Capacity of the devices, with parity: [`Self::space`] says what volumes have of it.
             */
            size: number;
            /** @description The space as volumes have it; none until it was looked at. */
            space?: components["schemas"]["PoolSpace"] | null;
            /** @description Whether all I/O waits for devices. */
            suspended: boolean;
            /** @description Since when writes wait, and why, if they do. */
            writes_wait?: components["schemas"]["WritesWait"] | null;
        };
        /** @description A pool that was found on devices. */
        PoolSummary: {
            /**
             * Format: uint64
             * @description Allocated bytes, if the pool is open.
             */
            allocated?: number | null;
            /** @description Devices that carry its labels. */
            devices: string[];
            /** @description Its GUID, in decimal. */
            guid: string;
            /** @description Health, if the pool is open. */
            health?: string | null;
            /** @description Host that used it last. */
            last_host?: string | null;
            /** @description Copies of its devices, which are not used. */
            left_out?: components["schemas"]["LeftOutView"][];
            /** @description Devices that its labels name and that were not found. */
            missing?: string[];
            /** @description Its name. */
            name: components["schemas"]["PoolName"];
            /**
             * Format: uint64
             * @description Capacity, if the pool is open.
             */
            size?: number | null;
            /** @description The space as volumes have it, if the pool is open. */
            space?: components["schemas"]["PoolSpace"] | null;
            /** @description `served`, `exported`, `active`, `destroyed` or `damaged`. */
            state: string;
            /** @description Devices of which it is unclear whether they are its own: it is not opened until one is chosen. */
            unclear?: string[];
        };
        /** @description A pool that a person makes, once, on one head. */
        PoolToMake: {
            /** @description Where the command is run: its home. */
            head: components["schemas"]["HeadName"];
            /** @description Which. */
            pool: components["schemas"]["PoolName"];
            /** @description Words of the command, without the program's name. */
            words: string[];
        };
        /** @description Listen here, too. */
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
             * @description Also at addresses that this machine does not have yet.
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
        /** @description Listen here no more. */
        PortalRemove: {
            /**
             * @description Even though clients came in by them: their sessions end.
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
        /** @description Requests about where the server listens. */
        PortalRequest: "list" | {
            add: components["schemas"]["PortalAdd"];
        } | {
            remove: components["schemas"]["PortalRemove"];
        } | {
            set: components["schemas"]["PortalSet"];
        };
        /** @description Listen here, and nowhere else. Addresses may come later, with a takeover. */
        PortalSet: {
            /**
             * @description Even though clients came in by what goes: their sessions end.
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
             * @description Sessions that came in by it.
             */
            clients: number;
            /**
             * Format: uint16
             * @description Its group, where clients are told of addresses by groups.
             */
            group?: number | null;
            /** @description Whether the machine has the address now. Clients cannot come before it has. */
            is_here: boolean;
            /** @description The pool that is served there. */
            pool: components["schemas"]["PoolName"];
            /** @description To whom: the name of the protocol. */
            protocol: string;
        };
        /**
         * @description Where the server of a pool listens, by the protocol: the option of `bulkhead pool-server` and `bulkhead portal` that says so, and
         *     what it is given: `ADDRESS:PORT`, or `ADDRESS:PORT,GROUP` of a protocol that has groups. Every protocol is listed.
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
            /**
             * Format: uint64
             * @description Start of the cluster's wait, in milliseconds since 1970.
             */
            since_ms: number;
        };
        /** @description Privilege levels of IPMI that may switch the power. */
        Privilege: "operator" | "administrator";
        /** @description A set of time-outs that were tried together. */
        Profile: "fast" | "default" | "conservative";
        /** @description A property's value and where it comes from. */
        Property: {
            /** @description `local`, `default`, `inherited from NAME`, or `-`. */
            source: string;
            /** @description The value as text. */
            value: string;
        };
        /** @description What a protocol shows that has no view of its own. */
        ProtocolView: {
            /** @description What it shows. */
            exports: components["schemas"]["ExportView"][];
            /** @description Where it listens. */
            listeners: string[];
            /** @description The protocol. */
            name: string;
            /** @description While clients may take back what they had open and locked at the server before. */
            recovery?: components["schemas"]["RecoveryView"] | null;
            /** @description By what clients can secure their connections, such as `TLS`. */
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
            /** @description The third machine that `rule = "witness"` asks. */
            witness?: components["schemas"]["Witness"] | null;
        };
        /** @description A rule of quorum. */
        QuorumRule: "two-node" | "witness" | "majority";
        /** @description Clients may take back what they had open and locked at the server before. Others get nothing meanwhile that could be in their way. */
        RecoveryView: {
            /**
             * Format: uint64
             * @description Clients that it waits for, and ends without. Nothing: it is not known who had something.
             */
            awaited_clients?: number | null;
            /**
             * Format: uint64
             * @description It ends then, in milliseconds from now, if nobody takes something back until then.
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
        /** @description What the replacement of a disk would do. */
        ReplacementView: {
            /** @description Disks of this machine that nothing uses. */
            candidates: components["schemas"]["UnusedDiskView"][];
            /** @description Devices that should be replaced, the worst first. */
            failing: components["schemas"]["FailingView"][];
            /** @description Why it cannot be done yet, in a sentence. */
            hindrance?: string | null;
            /**
             * Format: uint64
             * @description Bytes that a new disk needs.
             */
            needed_bytes: number;
            /** @description The disk that would take its place. */
            new?: string | null;
            /** @description The device that would be replaced. */
            old?: string | null;
            /** @description The pool. */
            pool: string;
            /** @description What would be done, in sentences. */
            steps: string[];
            /** @description The new device of a replacement that is under way; then nothing else has to be chosen. */
            under_way?: string | null;
        };
        /** @description Let a pool replicate into this one. */
        ReplicateAccept: components["schemas"]["Peer"];
        /** @description Where a volume, or every volume below a dataset, is replicated to. */
        ReplicateDocument: {
            /** @description Encrypted volumes leave this pool decrypted: the receiver stores them as it stores others. */
            decrypt?: boolean;
            /**
             * Format: uint64
             * @description Seconds between two runs; none: only when asked for.
             */
            every_s?: number | null;
            /** @description The volume, or the dataset above volumes, there. */
            into: components["schemas"]["VolumeName"];
            /**
             * Format: uint32
             * @description Snapshots of replication that are kept on each side.
             */
            keep: number;
            /** @description The receiving pool's certificate. */
            peer: components["schemas"]["Fingerprint"];
            /** @description Encrypted volumes stay encrypted on the way and there. */
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
         * @description The site of the originals is lost: the copies take their place, with identities and exports
         *
         *     Initiators find the same disks under the same names. What is missing of the targets is made.
         *     Afterwards nothing is replicated into these volumes any more.
         */
        ReplicatePromote: {
            /** @description The copy, or the dataset above copies */
            dataset: components["schemas"]["VolumeName"];
            /** @description Yes, the originals are served nowhere, and never will be again */
            original_is_lost?: boolean;
        };
        /** @description Do not replicate it any more; what has arrived stays there */
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
        /** @description Do not let a pool replicate into this one any more. */
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
        /** @description How replication went. */
        ReplicateState: {
            /**
             * Format: uint64
             * @description When it was tried last, in seconds since 1970.
             * @default 0
             */
            attempted_unix_s?: number;
            /**
             * Format: uint64
             * @description Bytes that the last success took.
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
             * @description The moment whose contents have arrived, in seconds since 1970; 0: none.
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
            /** @description Where to, and how often. */
            document: components["schemas"]["ReplicateDocument"];
            /**
             * Format: uint64
             * @description Seconds since the moment whose contents have arrived; none if none have.
             */
            lag_s?: number | null;
            /** @description How it went. */
            state: components["schemas"]["ReplicateState"];
            /** @description Of a run that is under way: for how long, which volume, how far. */
            under_way?: string | null;
        };
        /** @description Where a pool listens for others that replicate into it. */
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
        /** @description The replication of a dataset at a glance. */
        ReplicationGlance: {
            /** @description Which. */
            dataset: components["schemas"]["VolumeName"];
            /**
             * Format: uint64
             * @description Seconds between two runs; none: only when asked for.
             */
            every_s?: number | null;
            /**
             * Format: uint64
             * @description Seconds since the moment whose contents have arrived; none if none have, or if that is not known.
             */
            lag_s?: number | null;
            /** @description The receiver, as `HOST:PORT`. */
            to: string;
            /** @description What is wrong. */
            trouble?: components["schemas"]["ReplicationTrouble"] | null;
            /** @description The same in a sentence. */
            why?: string | null;
        };
        /** @description What is wrong with the replication of a dataset. */
        ReplicationTrouble: "failing" | "late" | "clock_ahead" | "unreadable";
        /** @description Everything about replication of a pool. */
        ReplicationView: {
            /** @description What others have replicated into it. */
            copies?: components["schemas"]["CopyView"][];
            /** @description Its certificate, if it has one. */
            fingerprint?: components["schemas"]["Fingerprint"] | null;
            /** @description Pools that may replicate into it. */
            peers: components["schemas"]["Peer"][];
            /** @description The pool. */
            pool: components["schemas"]["PoolName"];
            /** @description What it replicates to others. */
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
        /** @description Requests of one kind. Times are from the arrival of a request to its answer. */
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
            /** @description Requests by their time, in the classes of [`VolumeActivity::read_times`]. */
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
             * @description A file beside which a lock lies; the rescue ends when nobody holds that lock any more. None:
             *     it lasts until it is ended, or the server ends.
             * @default null
             */
            lease?: string | null;
            /**
             * @description One of its snapshots; none means the volume itself, which nobody else may use then.
             * @default null
             */
            snapshot?: components["schemas"]["SnapshotName"] | null;
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
            /**
             * @description Whether it may be changed; of a snapshot a clone is changed, and thrown away at the end.
             * @default false
             */
            writable?: boolean;
        };
        /** @description A command, and what it is good for. */
        RescueCommand: {
            /** @description The lines. */
            lines: string[];
            /** @description What it does. */
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
        /** @description A rescue that lasts. */
        RescueView: {
            /** @description The clone that exists meanwhile. */
            clone?: components["schemas"]["VolumeName"] | null;
            /** @description How to use it, and how to end it. */
            commands: components["schemas"]["RescueCommand"][];
            /** @description `gpt`, `mbr` or `none`. */
            partition_table: string;
            /** @description The partitions; of a disk without a table that holds a file system, that one, numbered 0. */
            partitions: components["schemas"]["Partition"][];
            /** @description Whether writes are refused. */
            read_only: boolean;
            /**
             * Format: uint64
             * @description Bytes.
             */
            size: number;
            /** @description The snapshot that is looked at; none means the volume itself. */
            snapshot?: components["schemas"]["SnapshotName"] | null;
            /** @description The NBD socket; its only export has no name. */
            socket: string;
            /** @description The same as NBD clients write it. */
            uri: string;
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description What a receiver keeps at least of each volume. The sender may ask for more, never for less. */
        Retention: {
            /**
             * Format: uint32
             * @description Of each of so many last days on which some arrived, the first one, up to [`KEEP_DAYS_MAX`].
             */
            days: number;
            /**
             * Format: uint32
             * @description So many of the newest snapshots of replication, 1 to [`KEEP_MAX`].
             */
            newest: number;
        };
        /** @description A user's role. Each role includes the rights of those before it. */
        Role: "read-only" | "operator" | "admin";
        /** @description A volume or file system was taken back to a snapshot. */
        RolledBack: {
            /**
             * Format: uint64
             * @description Connections that were closed, because the size changed and their protocol cannot tell.
             */
            connections_closed: number;
            /** @description Snapshots that were newer, and are no more. */
            destroyed: components["schemas"]["SnapshotName"][];
            /** @description Bookmarks that were newer, and are no more. */
            destroyed_bookmarks?: string[];
            /**
             * Format: uint64
             * @description How long clients waited; none if it was not open.
             */
            pause_ms?: number | null;
            /**
             * Format: uint64
             * @description Sessions that were told that the contents changed.
             */
            sessions_told: number;
            /**
             * Format: uint64
             * @description The volume's size now; 0 of a file system.
             */
            size: number;
            /** @description The snapshot, with the volume's name. */
            to: components["schemas"]["SnapshotName"];
            /**
             * Format: uint64
             * @description How long all of it took.
             */
            took_ms: number;
        };
        /** @description When snapshots are taken, and how many of them are kept: `daily at 03:00 keep 7`. */
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
             * @description When it is due next, in seconds since 1970.
             */
            next: number;
            /** @description The rule in words, such as `daily at 03:00 keep 7`. */
            rule: components["schemas"]["Rule"];
            /**
             * Format: uint64
             * @description Snapshots of it that there are.
             */
            snapshots: number;
        };
        /** @description The safeguards that a takeover depends on, as this head sees them. */
        Safeguards: {
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
             * @description Bytes looked at.
             */
            examined: number;
            /** @description `scrub` or `resilver`. */
            function: string;
            /**
             * Format: uint64
             * @description Seconds that it will still take at its present speed.
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
             * @description Bytes to look at.
             */
            to_examine: number;
        };
        /** @description Forget a schedule; the snapshots stay */
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
            /** @description When, and how many are kept; none to leave these volumes out. */
            rules: components["schemas"]["Rule"][];
            /**
             * @description No snapshot of what was not written to.
             * @default false
             */
            skip_unchanged?: boolean;
        };
        /** @description A schedule of snapshots. */
        ScheduleView: {
            /** @description Where it is set: a volume, a dataset above volumes, or the pool. */
            of: string;
            /** @description Its rules; none means that these volumes are left out. */
            rules: components["schemas"]["RuleView"][];
            /** @description No snapshot is taken of a volume that was not written to. */
            skip_unchanged: boolean;
            /** @description The volumes that it covers. */
            volumes: components["schemas"]["VolumeName"][];
        };
        /** @description What to do with a scrub. */
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
        /** @description A secret text. `Debug` and `Display` of anything that holds one cannot show it. */
        Secret: string;
        /** @description What to send. */
        SendWhat: {
            snapshot: {
                /** @description Tiny blocks travel inside their records. */
                embedded: boolean;
                /** @description What the receiver has already: `@SNAPSHOT`, `#BOOKMARK`, or a full name of either. */
                from?: string | null;
                /** @description Its name. */
                name: components["schemas"]["SnapshotName"];
                /** @description Blocks are decompressed, and split at 128K, for old receivers. */
                plain: boolean;
                /** @description Blocks as they are stored: those of an encrypted volume stay encrypted. */
                raw: boolean;
            };
        } | {
            rest: {
                /** @description The receiver's token. */
                token: string;
            };
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
             * @description Devices that it has brought back after they had failed.
             * @default 0
             */
            device_returns?: number;
            /** @description Whether it is draining its sessions before it ends. */
            draining: boolean;
            /**
             * Format: uint64
             * @description Milliseconds from the process's start to the first read served.
             */
            first_read_after_ms?: number | null;
            /** @description `listeners` of iSCSI, by the older name. */
            iscsi_portals: string[];
            /**
             * @description The ZFS library that it has loaded: version, kind, build. Empty from a server that does not tell.
             * @default
             */
            library?: string;
            /**
             * @description Where each protocol listens, by its name: `ADDRESS:PORT`, `ADDRESS:PORT,GROUP` or `unix:/PATH`. Absent from an older server.
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
             * @description Lines of its log that were dropped because nobody read them.
             * @default 0
             */
            log_lines_dropped?: number;
            /** @description `listeners` of NBD, by the older name. */
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
             * @description Set while the pool answers no questions, which happens while its devices are gone: the
             *     pool's part of the status is then this old.
             */
            pool_status_age_ms?: number | null;
            /**
             * Format: uint64
             * @description Milliseconds from the process's start until no intent log of an earlier owner waited.
             */
            replayed_after_ms?: number | null;
            /**
             * Format: uint64
             * @description Seconds since the process was started.
             */
            uptime_s: number;
            /** @description Version of Bulkhead. */
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
        /** @description Who is connected to an export. */
        SessionView: {
            /** @description How the client calls itself; the export's name where the protocol has no such name. */
            name: string;
            /** @description Where from. */
            peers: string[];
        };
        /** @description How much it matters. */
        Severity: "error" | "warning" | "info";
        /** @description How a file system is shared. */
        ShareView: {
            /** @description The dataset above from which it is inherited. */
            from?: string | null;
            /** @description Why it is not shared in this way, and what to do. */
            problem?: string | null;
            /** @description Its property `sharenfs`, or that of the nearest dataset above that has one; `off` if none has. */
            value: string;
        };
        /** @description Make a volume of a snapshot */
        SnapshotClone: {
            /** @description The snapshot. */
            from: components["schemas"]["SnapshotName"];
            /**
             * @description Refuse what would change a property that only an admin may set. A head sets it for those who are none.
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
        /** @description Keep the present contents of volumes; several are taken at one moment */
        SnapshotCreate: {
            /** @description Snapshots, as POOL/NAME@SNAPSHOT; with --recursive also as POOL@SNAPSHOT */
            names: components["schemas"]["NewSnapshot"][];
            /**
             * @description Of every volume in what is named, too, all or none
             * @default false
             */
            recursive?: boolean;
        };
        /** @description Destroy snapshots */
        SnapshotDestroy: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show what would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description Snapshots, as POOL/NAME@SNAPSHOT */
            names: components["schemas"]["SnapshotName"][];
        };
        /** @description List the snapshots of a pool or a volume */
        SnapshotList: {
            /** @description Only of this volume. */
            volume?: components["schemas"]["VolumeName"] | null;
        };
        /** @description A snapshot, such as `tank/vm/disk0@monday`. */
        SnapshotName: string;
        /** @description Give a snapshot another name; its clones, and clients of the volume, notice nothing */
        SnapshotRename: {
            /** @description Which. */
            from: components["schemas"]["SnapshotName"];
            /** @description The same volume's, with another word after the `@`. */
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
            schedule: components["schemas"]["ScheduleRequest"];
        };
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
             * @description Space that its contents occupy.
             */
            referenced: number;
            /**
             * Format: uint64
             * @description Space that only it occupies.
             */
            used: number;
        };
        /** @description Where the space of a dataset goes, and its limits. In bytes. */
        SpaceView: {
            /**
             * Format: uint64
             * @description What it could still take.
             */
            available: number;
            /**
             * Format: uint64
             * @description What is below it.
             */
            by_children: number;
            /**
             * Format: uint64
             * @description Its present contents.
             */
            by_data: number;
            /**
             * Format: uint64
             * @description Set aside and not used yet.
             */
            by_reservation: number;
            /**
             * Format: uint64
             * @description What only its snapshots hold.
             */
            by_snapshots: number;
            /**
             * Format: uint64
             * @description How many times smaller compression makes it, in percent: 150 for 1.5.
             */
            compress_percent: number;
            /**
             * Format: uint64
             * @description Its contents before compression.
             */
            logical_referenced: number;
            /**
             * Format: uint64
             * @description What it takes before compression, with what is below it.
             */
            logical_used: number;
            /** @description Its name; empty beside a volume, which has one. */
            name?: string;
            /**
             * Format: uint64
             * @description Most that it may take, with its snapshots and what is below it.
             */
            quota?: number | null;
            /**
             * Format: uint64
             * @description Most that its contents may take.
             */
            refquota?: number | null;
            /**
             * Format: uint64
             * @description Set aside for its contents.
             */
            refreservation?: number | null;
            /**
             * Format: uint64
             * @description Set aside for it, its snapshots and what is below it.
             */
            reservation?: number | null;
            /**
             * Format: uint64
             * @description All that it takes, with what is below it.
             */
            used: number;
            /**
             * Format: uint64
             * @description Written since its newest snapshot.
             */
            written: number;
        };
        /** @description The overview. */
        Status: {
            /** @description What was done on the volumes that are shown, since the server began. */
            activity?: components["schemas"]["VolumeActivity"][];
            /** @description Who may ask for the targets. */
            discovery?: components["schemas"]["DiscoveryView"] | null;
            /** @description What was done in the file systems that are shared, since the server began. */
            file_system_activity?: components["schemas"]["FileSystemActivity"][];
            /** @description NBD exports with their clients. */
            nbd: components["schemas"]["NbdView"][];
            /** @description What other protocols show. */
            other_protocols?: components["schemas"]["ProtocolView"][];
            /** @description The pool. */
            pool: components["schemas"]["PoolStatus"];
            /** @description Export documents that cannot be served, in sentences. */
            problems: string[];
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
             * @description Time until clients could reach the pool again, in milliseconds.
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
            /** @description Who. */
            who: components["schemas"]["Who"];
        };
        /** @description Forget users and secrets. */
        TargetChapClear: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /**
             * @description Even though no secret is asked for afterwards: whoever the access rule lets in needs none.
             * @default false
             */
            no_secret?: boolean;
            /** @description One user, or all with the mutual secret. */
            user?: string | null;
        };
        /** @description Ask initiators for a name and a secret. */
        TargetChapSet: {
            /**
             * @description The initiators that may use it, by name; none means any. It replaces those named before.
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
        /** @description Who is asked for a secret, and whether the target proves itself. */
        TargetChapShow: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
        };
        /** @description Make a target without volumes; nobody but loopback is allowed. */
        TargetCreate: {
            /** @description Its name. */
            name: components["schemas"]["IscsiName"];
            /** @description Groups of portals that offer it; empty means all. */
            portal_groups: number[];
        };
        /** @description Take from the access rule of a target. Sessions that it covered end. */
        TargetDeny: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /** @description Who. */
            who: components["schemas"]["Who"];
        };
        /** @description Remove a target and the maps of its volumes. */
        TargetDestroy: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show what would be destroyed, and change nothing */
            dry_run?: boolean;
            /**
             * @description Even though initiators are connected: their sessions end.
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
        /** @description Show a volume in a target as a logical unit */
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
             * @description Whether the unit starts with a volatile write cache: on answers writes before they are
             *     durable, as a disk does, and loses those that were not flushed if the server dies under
             *     a running initiator [default: off]
             */
            write_cache?: boolean | null;
        };
        /** @description Answer the challenges of initiators that want the target to prove itself. */
        TargetMutualSet: {
            /** @description Target. */
            name: components["schemas"]["IscsiName"];
            /** @description Its secret, unlike any initiator's. */
            secret: components["schemas"]["Secret"];
            /** @description The target's user name. */
            user: string;
        };
        /** @description Requests about iSCSI targets. */
        TargetRequest: "list" | {
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
        /** @description Take a volume out of a target */
        TargetUnmap: {
            /**
             * @description Even though initiators are connected: the unit vanishes under them
             * @default false
             */
            in_use?: boolean;
            /** @description The target's name */
            name: components["schemas"]["IscsiName"];
            /** @description The volume */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description A target. Secrets are never part of an answer. */
        TargetView: {
            /** @description Who may log in. */
            access: components["schemas"]["AccessRule"];
            /** @description CHAP users. */
            chap_users: string[];
            /** @description The user name by which the target proves itself. */
            mutual_user?: string | null;
            /** @description Its name. */
            name: components["schemas"]["IscsiName"];
            /** @description Portal groups that offer it; empty means all. */
            portal_groups: number[];
            /** @description Sessions now; none when no server runs. */
            sessions?: components["schemas"]["SessionView"][];
            /** @description Its logical units. */
            units: components["schemas"]["UnitView"][];
        };
        /** @description Single time-outs that replace those of the profile. */
        TimeoutWishes: {
            /**
             * Format: uint32
             * @description How long a head that boots waits for the others before it starts Pacemaker, which powers off what it does not
             *     see, in seconds. With `rule = "two-node"` it waits until it has seen the other head, however long that takes.
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
             * @description How long a disk may take for one read or write, in seconds. One that takes longer counts as failed, and the pool
             *     goes on with the others; clients wait for so long. Disks that try hard to read a bad sector need
             *     up to 7 s where their error recovery is bounded, and a minute where it is not.
             * @default null
             */
            disk_answer_s?: number | null;
            /**
             * Format: uint32
             * @description Time between tests that each fence device answers, in seconds.
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
             * @description Bound of one such test, in seconds. A server that does not answer for a tenth of it (300 ms
             *     to 3 s) counts as failed.
             * @default null
             */
            pool_monitor_timeout_s?: number | null;
            /**
             * Format: uint32
             * @description Bound of the start of a pool, in seconds. A pool that starts more slowly is moved on.
             * @default null
             */
            pool_start_s?: number | null;
            /**
             * Format: uint32
             * @description Bound of the stop of a pool, in seconds. A head that stops more slowly is powered off. A
             *     server that does not answer for a hundredth of it (200 ms to 1 s) is killed.
             * @default null
             */
            pool_stop_s?: number | null;
            /**
             * @description Where every value comes from that is not given here: `fast`, `default` or `conservative`.
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
             * @description Corosync's `token`: silence after which a head counts as lost, in milliseconds. A head
             *     that the hardware or the hypervisor stalls for longer is powered off although it is well.
             * @default null
             */
            token_ms?: number | null;
        };
        /**
         * @description TLS of a protocol that a pool is served by. The files lie on every head that may serve the pool, and are read when
         *     the server starts and when it is told to read its exports again.
         */
        Tls: {
            /**
             * @description File on each head with the certificate and those between it and a root, PEM. It is for the
             *     pool's addresses, or for names that stand for them.
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
        /** @description Forget what an interrupted receive left. */
        TransferAbort: {
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description Keep a bookmark of a snapshot, to send from when it is destroyed. */
        TransferBookmark: {
            /** @description The bookmark's name, without the volume's. */
            mark: string;
            /** @description The snapshot. */
            snapshot: components["schemas"]["SnapshotName"];
        };
        /** @description What an interrupted receive left. */
        TransferInterrupted: {
            /** @description The volume. */
            volume: components["schemas"]["VolumeName"];
        };
        /** @description Receive the stream that the descriptor holds. It lasts as long as the other side likes. */
        TransferReceive: {
            /**
             * @description Throw away what was changed since the stream's base.
             * @default false
             */
            force?: boolean;
            /**
             * @description Make missing parents.
             * @default false
             */
            parents?: boolean;
            /**
             * @description Keep what arrived of a stream that is cut off.
             * @default false
             */
            resumable?: boolean;
            /**
             * @description The snapshot's name, without the volume's; none takes the stream's.
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
        /** @description Write the stream of a snapshot to the descriptor that comes with the request. It lasts as long as the other side likes. */
        TransferSend: {
            /**
             * @description Only say how much it would be.
             * @default false
             */
            estimate?: boolean;
            /** @description What. */
            what: components["schemas"]["SendWhat"];
        };
        /** @description What was sent or received. */
        TransferView: {
            /**
             * Format: uint64
             * @description Bytes of the stream; of an estimate: about.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description How long it took.
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
            /** @description The volume behind it. */
            volume: components["schemas"]["VolumeName"];
            /** @description Whether it starts with its write cache on. */
            write_cache: boolean;
        };
        /** @description A disk that nothing uses. */
        UnusedDiskView: {
            /** @description What the maker calls it. */
            model?: string | null;
            /** @description Its most lasting path. */
            path: string;
            /** @description Why it is not taken by itself. */
            refused?: string | null;
            /** @description What is printed on it. */
            serial?: string | null;
            /**
             * Format: uint64
             * @description Bytes.
             */
            size: number;
        };
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
            /** @description What it will be. */
            after?: string | null;
            /** @description What it is. */
            before?: string | null;
            /** @description Its name. */
            name: string;
        };
        /** @description A head that is a virtual machine. */
        VirtualMachine: {
            /** @description Name of its hypervisor in `hypervisors`. */
            hypervisor: string;
            /** @description Its name or number there, as the agent wants it. */
            machine: string;
        };
        /**
         * @description What clients did on a volume since the server began. Times are from the arrival of a request to its
         *     answer.
         */
        VolumeActivity: {
            /**
             * Format: uint64
             * @description Requests that were answered with an error.
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
             * @description Reads by their time: up to 64 us, 256 us, 1024 us, each four times the one before, the last
             *     without an end.
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
             * @description Of these, writes that were refused for lack of space.
             * @default 0
             */
            refused_for_space?: number;
            /**
             * Format: uint64
             * @description Bytes written.
             */
            write_bytes: number;
            /** @description Writes by their time, as for reads. */
            write_times: number[];
            /**
             * Format: uint64
             * @description Time of all writes, in microseconds, with waiting for durability.
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
        /** @description Make a volume */
        VolumeCreate: {
            /**
             * Format: uint32
             * @description Block size in bytes: a power of two, 512 to 16M.
             */
            block_size?: number | null;
            /** @description An existing volume of the same size is success. */
            exist_ok: boolean;
            /** @description A key of its own. Without one it is as its parent is: plain, or encrypted with the parent's. */
            key?: components["schemas"]["KeySettings"] | null;
            /** @description Its name. */
            name: components["schemas"]["VolumeName"];
            /** @description Make missing parents. */
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
         * @description Destroy a volume, with its snapshots if that is said
         *
         *     What holds volumes is no volume: `bulkhead filesystem destroy --recursive` destroys it with all below it.
         */
        VolumeDestroy: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show what would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description Even though it is exported, or in use: end its exports first */
            exported: boolean;
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
            /** @description Its snapshots too */
            recursive: boolean;
        };
        /**
         * @description Give up the acknowledged writes of a log that cannot be replayed
         *
         *     A volume whose intent log cannot be replayed to its end is not served, and its log is kept: see to the devices
         *     first. This is for devices that never come back. What the log holds was acknowledged as durable, and is lost.
         */
        VolumeDiscardLog: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show what would be destroyed, and change nothing */
            dry_run?: boolean;
            /** @description The volume */
            name: components["schemas"]["VolumeName"];
        };
        /**
         * @description Hold writes by clients for a consistent copy elsewhere; reads continue
         *
         *     Waits until the commands under way have ended, and makes everything that was written durable. From then on writes
         *     and discards of iSCSI and NBD clients wait, until `volume thaw` or until the time is over.
         */
        VolumeFreeze: {
            /** @description The volumes, all of one pool; each is exported */
            names: components["schemas"]["VolumeName"][];
            /**
             * Format: uint64
             * @description Let writes continue after this time, at most 60s, such as 30s
             * @default 10
             */
            seconds?: number;
        };
        /** @description Read properties */
        VolumeGet: {
            /** @description The volume, or a pool for what its volumes inherit */
            name: string;
            /** @description Which properties [default: all] */
            names: string[];
        };
        /** @description Forget a property's own value, so that the parent's holds */
        VolumeInherit: {
            /** @description The volume */
            name: string;
            /** @description Which properties */
            names: string[];
        };
        /** @description A volume (or any dataset below a pool), such as `tank/vm/disk0`. */
        VolumeName: string;
        /** @description Swap roles with the volume this one was cloned from, so that that one can be destroyed */
        VolumePromote: {
            /**
             * @description Refuse what would change a property that only an admin may set. A head sets it for those who are none.
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
        /** @description Give a volume another name in its pool; exports and identity stay */
        VolumeRename: {
            /** @description The volume */
            from: components["schemas"]["VolumeName"];
            /**
             * @description Refuse what would change a property that only an admin may set. A head sets it for those who are none.
             * @default false
             */
            keep_rights?: boolean;
            /** @description Its new name */
            to: components["schemas"]["VolumeName"];
        };
        /** @description Requests about volumes. */
        VolumeRequest: ("list" | "space") | {
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
            rescue: components["schemas"]["RescueRequest"];
        };
        /** @description Change a volume's size; connected clients are told */
        VolumeResize: {
            /** @description What lies beyond the new size may be lost */
            allow_shrink: boolean;
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /** @description Show what would be destroyed, and change nothing */
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
         * @description Take a volume back to a snapshot, also while it is exported and in use
         *
         *     What was written since the snapshot is lost. Clients stay connected: iSCSI initiators are told
         *     that the contents changed. What a client has in its own memory is not changed: unmount the
         *     file system, or stop the virtual machine, before.
         */
        VolumeRollback: {
            /** @description Refuse, with the list of what would be destroyed: nothing was confirmed. */
            ask?: boolean;
            /**
             * @description Destroy the volume's newer snapshots
             * @default false
             */
            destroy_newer?: boolean;
            /** @description Show what would be destroyed, and change nothing */
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
        /** @description Let writes to frozen volumes continue; fails if they were not frozen up to now */
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
            /** @description Where it is exported, in words such as `iscsi:IQN/0` and `nbd:NAME`. */
            exports: string[];
            /** @description It is frozen. */
            frozen?: components["schemas"]["FrozenView"] | null;
            /** @description Who it is to initiators. */
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
             * @description Space that its current contents occupy.
             */
            referenced: number;
            /**
             * Format: uint64
             * @description Its size; 0 while it is locked.
             */
            size: number;
            /**
             * @description Where its space goes, and its limits.
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
            /** @description Whether no space is reserved for it. */
            sparse: boolean;
            /**
             * Format: uint64
             * @description Space that it and its snapshots occupy.
             */
            used: number;
        };
        /** @description Moments that come again and again. */
        When: string;
        /** @description Who is added to or taken from an access rule. */
        Who: {
            /**
             * @description Anybody who reaches a portal.
             * @default false
             */
            everyone?: boolean;
            /**
             * @description Initiators by name.
             * @default []
             */
            initiators?: components["schemas"]["IscsiName"][];
            /**
             * @description Where everyone is let in: these instead.
             * @default false
             */
            instead_of_everyone?: boolean;
            /**
             * @description Clients by network.
             * @default []
             */
            networks?: components["schemas"]["Subnet"][];
        };
        /** @description A machine that is no head and decides which half of a split appliance goes on. */
        Witness: {
            /**
             * Format: ip
             * @description Address of the machine that runs `corosync-qnetd`.
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
             * @description Heads and witness know each other by certificates.
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
        /** @description Writes of a pool wait, and with them its changes. */
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
export type Button = components['schemas']['Button'];
export type Change = components['schemas']['Change'];
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
export type Event = components['schemas']['Event'];
export type ExportView = components['schemas']['ExportView'];
export type FailingView = components['schemas']['FailingView'];
export type Failure = components['schemas']['Failure'];
export type FailureKind = components['schemas']['FailureKind'];
export type FaultView = components['schemas']['FaultView'];
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
export type FilesystemOpenFiles = components['schemas']['FilesystemOpenFiles'];
export type FilesystemPromote = components['schemas']['FilesystemPromote'];
export type FilesystemRename = components['schemas']['FilesystemRename'];
export type FilesystemRequest = components['schemas']['FilesystemRequest'];
export type FilesystemRollback = components['schemas']['FilesystemRollback'];
export type FilesystemSet = components['schemas']['FilesystemSet'];
export type FilesystemShow = components['schemas']['FilesystemShow'];
export type FilesystemView = components['schemas']['FilesystemView'];
export type Finding = components['schemas']['Finding'];
export type FindingSeverity = components['schemas']['FindingSeverity'];
export type Fingerprint = components['schemas']['Fingerprint'];
export type FrozenView = components['schemas']['FrozenView'];
export type GroupKind = components['schemas']['GroupKind'];
export type GroupRole = components['schemas']['GroupRole'];
export type Head = components['schemas']['Head'];
export type HeadAsked = components['schemas']['HeadAsked'];
export type HeadName = components['schemas']['HeadName'];
export type HeadView = components['schemas']['HeadView'];
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
export type LeftOutView = components['schemas']['LeftOutView'];
export type Leg = components['schemas']['Leg'];
export type LegGroup = components['schemas']['LegGroup'];
export type LegGroupKind = components['schemas']['LegGroupKind'];
export type LegState = components['schemas']['LegState'];
export type LegWitness = components['schemas']['LegWitness'];
export type Legs = components['schemas']['Legs'];
export type Link = components['schemas']['Link'];
export type LinkView = components['schemas']['LinkView'];
export type Login = components['schemas']['Login'];
export type Metrics = components['schemas']['Metrics'];
export type Move = components['schemas']['Move'];
export type NbdExport = components['schemas']['NbdExport'];
export type NbdExportDocument = components['schemas']['NbdExportDocument'];
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
export type Partition = components['schemas']['Partition'];
export type Pdu = components['schemas']['Pdu'];
export type Peer = components['schemas']['Peer'];
export type Permissions = components['schemas']['Permissions'];
export type Place = components['schemas']['Place'];
export type Planned = components['schemas']['Planned'];
export type Pool = components['schemas']['Pool'];
export type PoolAdd = components['schemas']['PoolAdd'];
export type PoolAddHead = components['schemas']['PoolAddHead'];
export type PoolAddress = components['schemas']['PoolAddress'];
export type PoolAttach = components['schemas']['PoolAttach'];
export type PoolClear = components['schemas']['PoolClear'];
export type PoolClose = components['schemas']['PoolClose'];
export type PoolDestroy = components['schemas']['PoolDestroy'];
export type PoolDetach = components['schemas']['PoolDetach'];
export type PoolDiscardLeg = components['schemas']['PoolDiscardLeg'];
export type PoolEvent = components['schemas']['PoolEvent'];
export type PoolEvents = components['schemas']['PoolEvents'];
export type PoolFound = components['schemas']['PoolFound'];
export type PoolGet = components['schemas']['PoolGet'];
export type PoolLeg = components['schemas']['PoolLeg'];
export type PoolLegMember = components['schemas']['PoolLegMember'];
export type PoolLegs = components['schemas']['PoolLegs'];
export type PoolLoad = components['schemas']['PoolLoad'];
export type PoolLogLevel = components['schemas']['PoolLogLevel'];
export type PoolName = components['schemas']['PoolName'];
export type PoolOffline = components['schemas']['PoolOffline'];
export type PoolOnline = components['schemas']['PoolOnline'];
export type PoolOverview = components['schemas']['PoolOverview'];
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
export type PoolToMake = components['schemas']['PoolToMake'];
export type PortalAdd = components['schemas']['PortalAdd'];
export type PortalRemove = components['schemas']['PortalRemove'];
export type PortalRequest = components['schemas']['PortalRequest'];
export type PortalSet = components['schemas']['PortalSet'];
export type PortalView = components['schemas']['PortalView'];
export type Portals = components['schemas']['Portals'];
export type PowerOffView = components['schemas']['PowerOffView'];
export type Privilege = components['schemas']['Privilege'];
export type Profile = components['schemas']['Profile'];
export type Property = components['schemas']['Property'];
export type ProtocolView = components['schemas']['ProtocolView'];
export type Question = components['schemas']['Question'];
export type Quorum = components['schemas']['Quorum'];
export type QuorumRule = components['schemas']['QuorumRule'];
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
export type SendWhat = components['schemas']['SendWhat'];
export type ServerRequest = components['schemas']['ServerRequest'];
export type ServerStatus = components['schemas']['ServerStatus'];
export type Session = components['schemas']['Session'];
export type SessionView = components['schemas']['SessionView'];
export type Severity = components['schemas']['Severity'];
export type ShareView = components['schemas']['ShareView'];
export type SnapshotClone = components['schemas']['SnapshotClone'];
export type SnapshotCreate = components['schemas']['SnapshotCreate'];
export type SnapshotDestroy = components['schemas']['SnapshotDestroy'];
export type SnapshotList = components['schemas']['SnapshotList'];
export type SnapshotName = components['schemas']['SnapshotName'];
export type SnapshotRename = components['schemas']['SnapshotRename'];
export type SnapshotRequest = components['schemas']['SnapshotRequest'];
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
export type VolumeName = components['schemas']['VolumeName'];
export type VolumePromote = components['schemas']['VolumePromote'];
export type VolumeRates = components['schemas']['VolumeRates'];
export type VolumeRename = components['schemas']['VolumeRename'];
export type VolumeRequest = components['schemas']['VolumeRequest'];
export type VolumeResize = components['schemas']['VolumeResize'];
export type VolumeRollback = components['schemas']['VolumeRollback'];
export type VolumeSet = components['schemas']['VolumeSet'];
export type VolumeShow = components['schemas']['VolumeShow'];
export type VolumeThaw = components['schemas']['VolumeThaw'];
export type VolumeView = components['schemas']['VolumeView'];
export type When = components['schemas']['When'];
export type Who = components['schemas']['Who'];
export type Witness = components['schemas']['Witness'];
export type WitnessView = components['schemas']['WitnessView'];
export type WritesWait = components['schemas']['WritesWait'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
