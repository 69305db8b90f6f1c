//! Determines which file systems are shared: by their own property `sharenfs`, or by that of the nearest ancestor that
//! has one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ::nfs::sharenfs::{Security, Share, Transport};
use control::exports::Problem;
use engine::Pool;
use engine::dataset::DatasetError;
use file_system::FileSystemId;
use protocol_list::nfs::PROTOCOL;
use serving::TlsFiles;
use units::PoolName;

/// The property, in the format of kernel ZFS.
const PROPERTY: &str = "sharenfs";

/// The desired shares.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The share options, by the name of the file system.
    pub all: BTreeMap<String, Share>,
    /// The identities of the shared file systems.
    pub ids: BTreeMap<String, FileSystemId>,
    /// The names of all file systems of the pool, if any is shared.
    pub names: BTreeSet<String>,
    /// Invalid properties.
    pub problems: Vec<Problem>,
    /// Datasets that have a property of their own.
    set: BTreeSet<String>,
}

impl Shares {
    /// Reads the shares of a pool. Opens no dataset.
    pub fn read(pool: &dyn Pool) -> Result<Self, DatasetError> {
        let mut set = BTreeMap::new();
        for (dataset, mut own) in pool.user_properties(PROPERTY)? {
            if let Some(text) = own.remove(PROPERTY) {
                set.insert(dataset, text);
            }
        }
        let (rules, problems) = rules(&set);
        let mut shares = Self {
            problems,
            set: rules.keys().cloned().collect(),
            ..Self::default()
        };
        if rules.values().all(Option::is_none) {
            return Ok(shares);
        }
        for (name, id) in pool.files()?.file_systems()? {
            shares.names.insert(name.clone());
            if let Some(share) = rule_of(&rules, &name) {
                shares.ids.insert(name.clone(), id);
                shares.all.insert(name, share.clone());
            }
        }
        Ok(shares)
    }

    /// Reports shares that no client can use, because they require TLS and the server has no files for it.
    pub fn note_missing_tls(&mut self, files: Option<&TlsFiles>) {
        let authority = files.and_then(|files| files.authority.as_ref());
        let lacks = |share: &Share| match share.least() {
            Transport::Plain => None,
            Transport::Tls => files.is_none().then_some("certificate (--nfs-tls-cert, --nfs-tls-key)"),
            Transport::Mutual => authority.is_none().then_some("authority of clients (--nfs-tls-ca)"),
        };
        let lacking: Vec<_> = self.all.iter().filter_map(|(name, share)| Some((name.clone(), lacks(share)?))).collect();
        self.report_once(lacking, |what| {
            format!(
                "no client can reach it, because its xprtsec requires TLS and the server has no {what}: \
                 give it one, in `[pools.POOL.tls.nfs]` of an appliance"
            )
        });
    }

    /// Removes Kerberos if the server has no keytab, together with the shares that are for Kerberos only.
    pub fn remove_kerberos(&mut self) {
        let mut lacking = Vec::new();
        self.all.retain(|name, share| {
            let is_plain = share.securities().iter().all(|one| *one == Security::System);
            let is_usable = share.remove_kerberos();
            if !is_plain {
                lacking.push((name.clone(), is_usable));
            }
            is_usable
        });
        self.report_once(lacking, |is_usable| {
            let what = match is_usable {
                true => "no client can use it by Kerberos",
                false => "it is not shared over NFS",
            };
            format!(
                "{what}, because its sec requires Kerberos and the server has no keytab (--nfs-keytab): \
                 give it one, in `[pools.POOL.kerberos]` of an appliance"
            )
        });
    }

    /// Reports a problem once where the property is set, with the number of file systems that inherit it.
    fn report_once<T: Ord>(&mut self, lacking: Vec<(String, T)>, sentence: impl Fn(&T) -> String) {
        let mut told: BTreeMap<(String, T), usize> = BTreeMap::new();
        for (name, what) in lacking {
            let origin = self.origin_of(&name).to_owned();
            let heirs = usize::from(origin != name);
            *told.entry((origin, what)).or_default() += heirs;
        }
        let problems = told.into_iter().map(|((subject, what), heirs)| {
            let mut sentence = sentence(&what);
            match heirs {
                0 => {}
                1 => sentence.push_str("; the same applies to 1 file system that inherits its sharenfs"),
                _ => sentence.push_str(&format!("; the same applies to {heirs} file systems that inherit its sharenfs")),
            }
            Problem { subject, sentence }
        });
        self.problems.extend(problems);
    }

    /// The dataset that sets the property of a file system.
    fn origin_of<'a>(&self, dataset: &'a str) -> &'a str {
        let above = std::iter::successors(Some(dataset), |at| Some(at.rsplit_once('/')?.0));
        above.into_iter().find(|at| self.set.contains(*at)).unwrap_or(dataset)
    }

    /// Replaces the shares by problems if the server of `pool` has no NFS address. `other`: an address of another protocol.
    pub fn without_address(mut self, pool: &PoolName, other: Option<IpAddr>) -> Self {
        let address = other.map_or_else(
            || format!("ADDRESS:{}", PROTOCOL.port),
            |ip| SocketAddr::new(ip, PROTOCOL.port).to_string(),
        );
        let unserved = highest(self.all.keys().map(String::as_str));
        self.problems.extend(unserved.into_iter().map(|name| Problem {
            subject: name.to_owned(),
            sentence: format!(
                "it is shared, and no client can reach it, because the server of {pool} has no address of NFS: \
                 `bulkhead portal add {pool} --nfs {address}` adds one"
            ),
        }));
        self.all.clear();
        self
    }
}

/// By dataset; `None` if the subtree is not shared.
type Rules = BTreeMap<String, Option<Share>>;

fn rules(set: &BTreeMap<String, String>) -> (Rules, Vec<Problem>) {
    let mut problems = Vec::new();
    let rules = set.iter().map(|(dataset, text)| {
        let share = Share::parse(text).unwrap_or_else(|error| {
            problems.push(Problem {
                subject: dataset.clone(),
                sentence: format!("it is not shared over NFS: {error}"),
            });
            None
        });
        (dataset.clone(), share)
    });
    (rules.collect(), problems)
}

pub fn is_below(dataset: &str, above: &str) -> bool {
    let rest = dataset.strip_prefix(above);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The members of the sorted list `datasets` that are below no other member.
fn highest<'a>(datasets: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut tops: Vec<&str> = Vec::new();
    for dataset in datasets {
        // An ancestor precedes its descendants in the order of names.
        if !tops.iter().any(|top| is_below(dataset, top)) {
            tops.push(dataset);
        }
    }
    tops
}

fn rule_of<'a>(rules: &'a Rules, dataset: &str) -> Option<&'a Share> {
    let mut at = dataset;
    loop {
        if let Some(share) = rules.get(at) {
            return share.as_ref();
        }
        (at, _) = at.rsplit_once('/')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_address_each_share_is_a_problem() {
        let names = ["tank/a", "tank/a/b", "tank/c"];
        let share = Share::parse("rw=10.0.0.1").expect("a share").expect("on");
        let shares = Shares {
            all: names.map(|name| (name.to_owned(), share.clone())).into(),
            ..Shares::default()
        };
        let left = shares.without_address(&"tank".parse().expect("a name"), Some([10, 0, 0, 1].into()));
        assert!(left.all.is_empty());
        let command = "`bulkhead portal add tank --nfs 10.0.0.1:2049`";
        assert!(left.problems.iter().all(|one| one.sentence.contains(command)), "{:?}", left.problems);
        let subjects: Vec<&str> = left.problems.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(subjects, ["tank/a", "tank/c"]);
    }

    #[test]
    fn share_requiring_tls_without_tls_is_reported() {
        let share = |how: &str| Share::parse(&format!("rw=10.0.0.1,xprtsec={how}")).expect("a share").expect("on");
        let all: BTreeMap<String, Share> =
            ["none:tls", "tls:mtls", "mtls"].map(|how| (how.to_owned(), share(how))).into();
        let subjects = |files: Option<&TlsFiles>| {
            let mut shares = Shares { all: all.clone(), ..Shares::default() };
            shares.note_missing_tls(files);
            let subjects = shares.problems.into_iter().map(|one| one.subject);
            subjects.collect::<Vec<_>>()
        };
        let mut files = TlsFiles { certificate: "c".into(), key: "k".into(), authority: None };
        assert_eq!(subjects(None), ["mtls", "tls:mtls"]);
        assert_eq!(subjects(Some(&files)), ["mtls"]);
        files.authority = Some("a".into());
        assert!(subjects(Some(&files)).is_empty());
    }

    /// Clients use the first method that is offered, and give up if it fails.
    #[test]
    fn kerberos_is_offered_only_with_a_keytab() {
        let share = |how: &str| Share::parse(&format!("rw=10.0.0.1,sec={how}")).expect("a share").expect("on");
        let all: BTreeMap<String, Share> =
            ["krb5:sys", "krb5p", "sys"].map(|how| (how.to_owned(), share(how))).into();
        let mut shares = Shares { all, ..Shares::default() };
        shares.remove_kerberos();
        assert!(shares.all.keys().eq(["krb5:sys", "sys"]));
        assert_eq!(shares.all["krb5:sys"].securities(), [Security::System]);
        let [both, only] = &shares.problems[..] else {
            panic!("{:?}", shares.problems);
        };
        assert_eq!((&both.subject[..], &only.subject[..]), ("krb5:sys", "krb5p"));
        assert!(both.sentence.starts_with("no client can use it by Kerberos"), "{both}");
        assert!(only.sentence.starts_with("it is not shared"), "{only}");
    }

    #[test]
    fn inherited_share_problem_is_reported_at_its_origin() {
        let share = Share::parse("rw=10.0.0.1,sec=krb5,xprtsec=tls").expect("a share").expect("on");
        let names = ["tank/a", "tank/a/b", "tank/a/b/c", "tank/a/own", "tank/a/own/d"];
        let mut shares = Shares {
            all: names.map(|name| (name.to_owned(), share.clone())).into(),
            set: ["tank/a", "tank/a/own"].map(str::to_owned).into(),
            ..Shares::default()
        };
        shares.note_missing_tls(None);
        shares.remove_kerberos();
        assert!(shares.all.is_empty());
        let told = shares.problems.iter().map(|one| {
            let heirs = one.sentence.rsplit("the same applies to ").next().and_then(|rest| rest.split(' ').next());
            (one.subject.as_str(), heirs.unwrap_or_default())
        });
        let each = [("tank/a", "2"), ("tank/a/own", "1")];
        assert_eq!(told.collect::<Vec<_>>(), [each, each].concat());
    }

    fn set(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(dataset, text)| ((*dataset).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn the_nearest_property_decides() {
        let set = set(&[
            ("tank/a", "rw=10.0.0.0/8"),
            ("tank/a/private", "off"),
            ("tank/a/private/read", "ro=10.0.0.1"),
            ("tank/a-b", "rw=10.0.0.2"),
        ]);
        let (rules, problems) = rules(&set);
        assert!(problems.is_empty());
        let text_of = |dataset: &str| {
            let share = rule_of(&rules, dataset);
            let texts = set.values();
            let mut parsed = texts.filter(|text| Share::parse(text).ok().flatten().as_ref() == share);
            share.and_then(|_| parsed.next().map(String::as_str))
        };
        assert_eq!(text_of("tank"), None);
        assert_eq!(text_of("tank/a/b/c"), Some("rw=10.0.0.0/8"));
        assert_eq!(text_of("tank/a/private"), None);
        assert_eq!(text_of("tank/a/private/x"), None);
        assert_eq!(text_of("tank/a/private/read/x"), Some("ro=10.0.0.1"));
        assert_eq!(text_of("tank/a-b"), Some("rw=10.0.0.2"));
    }

    #[test]
    fn invalid_share_is_reported_once_and_disables_descendants() {
        let set = set(&[("tank", "rw=10.0.0.0/8"), ("tank/open", "on")]);
        let (rules, problems) = rules(&set);
        assert_eq!(rule_of(&rules, "tank/open/a"), None);
        assert!(rule_of(&rules, "tank/other").is_some());
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert_eq!(problem.subject, "tank/open");
        assert!(problem.sentence.contains("everybody"), "{problem}");
    }
}
