//! by hand
use crate::web_support::Web;
use support::{AgentSpec, PrivatePmcd, temp_dir};

#[test]
fn by_hand() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).env("TZ", "UTC").start();
    let dir = temp_dir();
    let web = Web::start_in(
        pmcd.env(),
        dir.path(),
        &["--any-host", "--allow-store", "--allow-origin", "*", "-h", "local:"],
    );
    let proxy = support::free_port();
    std::fs::write("/tmp/h/pmapi.port", format!("{} {} {} {}\n", web.port, pmcd.port(), proxy, pmcd.unix()))
        .unwrap();
    while std::path::Path::new("/tmp/h/pmapi.port").exists() {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    println!("{}", web.process.text());
}
