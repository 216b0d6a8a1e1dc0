//! What the page is made of, and what it asks, without a browser.

use support::temp_dir;

use crate::web_support::Web;

#[test]
fn the_page_is_served_with_a_strict_policy_compressed_and_once() {
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-a", dir.path().to_str().expect("ASCII")]);
    let page = web.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for inline in ["style=", "<style", "onclick", "javascript:", "https://", "http://"] {
        assert!(!page.text().contains(inline), "{inline} in the page");
    }
    let tag = page.header("etag").expect("a tag").to_owned();
    let again = web.ask("GET", "/app.js", &[("If-None-Match", &tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let packed = web.ask("GET", "/vendor/uPlot.esm.js", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < 60_000, "{}", packed.body.len());
    assert_eq!(
        web.get("/vendor/uPlot.esm.js").header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert_eq!(web.get("/package.json").status, 404);
}

#[test]
fn what_is_no_question_is_refused_with_the_reason() {
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-a", dir.path().to_str().expect("ASCII")]);
    let check = |path: &str, status: u16, reason: &str| {
        let answer = web.get(path);
        let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(answer.status == status && error.contains(reason), "{path}: {} {error}", answer.status);
    };
    check("/page/samples", 400, "source: expected");
    check("/page/samples?source=file:/etc/passwd&expr=a", 400, "source: expected");
    check("/page/samples?source=host:example.com&expr=a", 403, "not among the hosts");
    check("/page/samples?source=archive:/etc/passwd&expr=a", 400, "no such archive");
    check("/page/samples?source=archive:x", 400, "expr: expected");
    check("/page/samples?source=archive:x&expr=a&start=NaN", 400, "start: expected seconds");
    check("/page/samples?source=archive:x&expr=a&start=1e300", 400, "start: expected seconds");
    check("/page/samples?source=archive:x&expr=a&points=-1", 400, "points: expected");
    check(
        &format!(
            "/page/samples?source=archive:x&expr={}",
            "a%0A".repeat(5) + &(0..17).map(|n| format!("m{n}%0A")).collect::<String>()
        ),
        400,
        "more than 16",
    );
    check(&format!("/page/samples?source=archive:x&expr={}", "a".repeat(5_000)), 400, "longer than");
    check(&format!("/page/names?source=archive:x&prefix={}", "a".repeat(2_000)), 400, "longer than");
    check("/page/names?source=recorded:nobody", 400, "no archives of this host");
}
