//! Links librbd and librados, which the package of Ceph's development files installs in the linker's own path.

fn main() {
    println!("cargo:rustc-link-lib=dylib=rbd");
    println!("cargo:rustc-link-lib=dylib=rados");
    println!("cargo:rerun-if-changed=build.rs");
}
