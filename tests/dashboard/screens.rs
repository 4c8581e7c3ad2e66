//! The dashboard's page on small screens, in both colour schemes, and with the keyboard.

use evcore_tests::{Scheme, Screen, Server};

use crate::page::{Page, uneven_clients};

const TAB: char = '\u{E004}';
const ENTER: char = '\u{E007}';
const LEFT: char = '\u{E012}';

const PHONE: Screen = Screen {
    width: 360,
    height: 640,
    scale: 2,
};
const DESKTOP: Screen = Screen {
    width: 1280,
    height: 800,
    scale: 1,
};

/// Selectors of elements whose text must have enough contrast. `SHAPES` has selectors, each with
/// the CSS property whose colour must have enough contrast.
const TEXTS: [&str; 12] = [
    "h1", "h2", "#facts", "#state", "#pause", ".name", ".values", ".key", "thead th", "td",
    "footer", "summary",
];
const SHAPES: [(&str, &str); 1] = [(".bar", "backgroundColor")];

#[test]
fn both_schemes_fit_a_phone_and_have_contrast() {
    let server = Server::start(&["--workers", "4"]);
    let _clients = uneven_clients(&server);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    let mut papers = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        for screen in [PHONE, DESKTOP] {
            page.browser.show_on(screen, scheme);
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            let width = format!("innerWidth === {}", screen.width);
            page.wait_for("the window has its size", &width);
            page.wait_for("no horizontal scroll", fits);
            page.wait_for(
                "the plots fit",
                "$$('.plot').every((plot) => plot.querySelector('.base')?.getAttribute('x2') == plot.clientWidth)",
            );
            assert_eq!(page.browser.faint(&TEXTS, &SHAPES), [""; 0], "{scheme:?}");
        }
        let paper = "return getComputedStyle(document.body).backgroundColor";
        papers.push(page.browser.run(paper));
    }
    assert_ne!(papers[0], papers[1]);
    page.assert_no_error();
}

#[test]
fn the_keyboard_reaches_every_control_in_order() {
    let server = Server::start(&["--workers", "2"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    page.wait_for("a few samples", "state.samples.length > 3");
    let focused = "const focused = document.activeElement; \
        return [focused.id || focused.className || focused.tagName, getComputedStyle(focused).outlineStyle]";
    let mut order = Vec::new();
    for _ in 0..6 {
        page.browser.press(TAB);
        let it = page.browser.run(focused);
        assert_ne!(it[1], "none", "the focus of {it} is visible");
        order.push(it[0].as_str().expect("a name").to_owned());
        match order.last().map(String::as_str) {
            Some("pause") => {
                page.browser.press(ENTER);
                page.wait_for_state("paused");
                assert_eq!(page.text("#pause"), "Go on");
            }
            Some("time") => {
                assert_eq!(page.text("#time-shown"), "now");
                page.browser.press(LEFT);
                page.browser.press(LEFT);
                page.wait_for(
                    "an earlier time",
                    "/^[0-9]+ s ago$/.test($('#time-shown').innerText)",
                );
            }
            _ => {}
        }
    }
    assert_eq!(order, ["pause", "time", "log", "scroll", "SUMMARY", "A"]);
    page.assert_no_error();
}

#[test]
fn the_time_lines_can_be_read_as_a_table() {
    let server = Server::start(&["--workers", "2"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    page.wait_for("two samples", "state.samples.length > 1");
    page.browser
        .run("document.querySelector('summary').click()");
    page.wait_for(
        "a row for each sample, with a rate",
        "$$('#history tbody tr').length > 1 \
         && /^[0-9.,]+$/.test($('#history tbody tr td:nth-child(3)').innerText)",
    );
    page.assert_no_error();
}
