//! Embeds the path of the ZFS library in the binaries, if it is not Debian's: see `engines/zpool-sys/build.rs`.

const FOLDER_VARIABLE: &str = "BULKHEAD_LIBZPOOL";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={FOLDER_VARIABLE}");
    if let Ok(folder) = std::env::var(FOLDER_VARIABLE) {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
