//! Text against its ground, in all views and in both sets of colours.

use serde_json::Value as Json;
use support::temp_dir;

use super::spans::feed;
use super::{address, assert_quiet, at};
use crate::seat::Seat;
use crate::web_support::Web;

/// All texts that people see whose contrast is less than what WCAG asks for (AA: 4.5, and 3 for large ones); how many were looked at.
///
/// The ground is made of the backgrounds of all elements that are behind a text, or of the shape beside it in a drawing. Colours are read as a
/// canvas paints them, however they are written. What cannot be used need not stand out.
const FAINT: &str = "
    // Colours that are on their way to others.
    document.getAnimations().forEach((one) => one.finish());
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const paint = canvas.getContext('2d', { willReadFrequently: true });
    const known = new Map();
    const colour = (text) => {
        if (text === 'none') return [0, 0, 0, 0];
        if (!known.has(text)) {
            paint.clearRect(0, 0, 1, 1);
            paint.fillStyle = text;
            paint.fillRect(0, 0, 1, 1);
            const [red, green, blue, alpha] = paint.getImageData(0, 0, 1, 1).data;
            known.set(text, [red, green, blue, alpha / 255]);
        }
        return known.get(text);
    };
    const over = ([red, green, blue, alpha], ground) =>
        [red, green, blue].map((part, at) => part * alpha + ground[at] * (1 - alpha));
    const luminance = (rgb) => rgb.map((part) => part / 255)
        .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const painted = (ground, one) => {
        const { backgroundColor, opacity } = getComputedStyle(one);
        const [red, green, blue, alpha] = colour(backgroundColor);
        return over([red, green, blue, alpha * Number(opacity)], ground);
    };
    const grounds = (element, node) => {
        const range = document.createRange();
        range.selectNodeContents(node);
        const { left, top, width, height } = range.getBoundingClientRect();
        let behind = document.elementsFromPoint(left + width / 2, top + height / 2);
        behind = behind.slice(behind.indexOf(element));
        if (behind[0] !== element) {
            behind = [];
            for (let one = element; one; one = one.parentElement) behind.push(one);
        }
        return behind.reverse().reduce(painted, [255, 255, 255]);
    };
    const faint = [];
    let looked = 0;
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement;
        const words = walk.currentNode.data.trim();
        if (!words || !element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
        if (element.closest('script, style, title, .unseen, :disabled, option, datalist')) continue;
        const style = getComputedStyle(element);
        const drawn = element instanceof SVGElement;
        const shape = drawn && element.parentElement.querySelector(':scope > rect');
        let ground = grounds(element, walk.currentNode);
        if (shape) ground = over(colour(getComputedStyle(shape).fill), ground);
        let [red, green, blue, alpha] = colour(drawn ? style.fill : style.color);
        for (let one = element; one; one = one.parentElement) alpha *= Number(getComputedStyle(one).opacity);
        const [text, behind] = [over([red, green, blue, alpha], ground), ground].map(luminance);
        const contrast = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
        looked += 1;
        if (contrast < (isLarge ? 3 : 4.5) - 0.01) {
            faint.push(`${contrast.toFixed(2)} ${element.tagName.toLowerCase()}.${element.getAttribute('class') ?? ''}: ${words.slice(0, 40)}`);
        }
    }
    return [looked, [...new Set(faint)].slice(0, 20)]";

#[test]
fn all_texts_stand_out_in_all_views_light_and_dark() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    feed(&seat, 6);
    let nobody = format!("127.0.0.1:{}", support::free_port());
    let web = Web::start(dir.path(), &["-h", &endpoint.host(), "-h", &nobody]);
    let source = format!("source=host:{}", endpoint.host());
    let browser = at(&web, "");
    for (view, hash, seen) in [
        (
            "overview",
            String::new(),
            "document.querySelector('.card.up') && document.querySelector('.card.down')",
        ),
        (
            "charts",
            format!("charts?{source}&expr=jumpseat.self.cpu"),
            "document.querySelector('main canvas')",
        ),
        (
            "events",
            format!("events?{source}"),
            "document.querySelector('main').innerText.includes('checkout')",
        ),
        ("traces", format!("traces?{source}"), "document.querySelectorAll('.traces tbody tr').length === 6"),
        ("a trace", format!("traces?{source}&id=6"), "document.querySelectorAll('.list .span').length === 4"),
        (
            "spans",
            format!("spans?{source}&from=-60"),
            "document.querySelector('main').innerText.includes('charge')",
        ),
        (
            "flame",
            format!("flame?{source}&from=-60"),
            "document.querySelector('main').innerText.includes('checkout')",
        ),
    ] {
        browser.open("about:blank");
        browser.open(&address(&web, &hash));
        browser.wait(view, seen);
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            let found = browser.run(FAINT);
            assert!(found[0].as_u64().is_some_and(|looked| looked > 10), "{view}: {found}");
            assert_eq!(found[1], Json::Array(Vec::new()), "{view}, {scheme}");
        }
    }
    assert_quiet(&browser);
}
