//! What a listing of a directory tells of archives is what opening them tells.

use std::path::Path;

use jumpseat::archive::{Archive, glances};

#[test]
fn a_glance_tells_what_opening_tells() {
    let directory = Path::new("/var/lib/pcp/testsuite/archives");
    let listed = glances(directory, &[]).expect("PCP's archives are installed");
    let mut seen = 0;
    for glance in listed.iter().flatten() {
        let Ok(archive) = Archive::open(&glance.name.to_string_lossy()) else { continue };
        assert_eq!(&glance.label, archive.label(), "{}", glance.name.display());
        let last =
            archive.index().expect("it is there").last().map_or(glance.label.start, |entry| entry.stamp);
        assert_eq!(glance.last, last.max(glance.label.start), "{}", glance.name.display());
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
    let known: Vec<_> = listed.into_iter().flatten().collect();
    let again: Vec<_> = glances(directory, &known).expect("still there").into_iter().flatten().collect();
    assert_eq!(again, known);
}
