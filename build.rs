//! How programs that are handed out are linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=JUMPSEAT_PACKED");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    // Relocations take 0.7 of 15 MB otherwise. Whoever loads the program has to know the form: glibc does from 2.36 on.
    if is("JUMPSEAT_PACKED", "1") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        // What unwinds the stack is part of the program, instead of a library that each start looks for, maps and relocates, and that asks
        // the processor what it can do, which a virtual machine takes long to answer: 0.1 ms. A script of the linker stands in
        // for the library that Rust asks for.
        let out = std::env::var("OUT_DIR").expect("cargo says where");
        std::fs::write(format!("{out}/libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)").expect("the directory is ours");
        println!("cargo:rustc-link-search=native={out}");
        // Functions of the same code, mostly generic ones for types that look alike, are there once. Rust does not promise that functions
        // have addresses of their own. Only lld knows the option; Rust links with that by itself here alone.
        if is("CARGO_CFG_TARGET_ARCH", "x86_64") {
            println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        }
    }
}
