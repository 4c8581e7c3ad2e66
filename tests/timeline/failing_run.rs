//! The page about a simulated run that fails: an HTML report, which the tests open in a browser.

use std::time::Duration;

use evcore::{EventLoop, Step};
use evcore_sim::{
    App, ClientOutcome, FailureReport, Faults, Script, Sim, SimListener, SimStream, Workers,
    explain,
};
use evcore_tests::{Scheme, Screen};

use crate::page::Page;

const HOME: char = '\u{E011}';
const END: char = '\u{E010}';
const LEFT: char = '\u{E012}';
const RIGHT: char = '\u{E014}';

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

/// A server that treats a short write as a complete one.
struct Greeter {
    ev: EventLoop<SimListener>,
}

impl App for Greeter {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        if let Step::Accepted(new) = step {
            let _ = new.stream.send(b"hello");
        }
    }
}

fn greets_every_client(sim: &Sim) {
    sim.set_faults(Faults::lossless());
    let address = ([10, 0, 0, 1], 7).into();
    let mut workers = Workers::new(sim, 2, move |process, _| Greeter {
        ev: process
            .builder()
            .listener(process.listen(address))
            .build()
            .expect("a loop"),
    });
    let start = |_| sim.client(address, Script::new().recv(5));
    let clients: Vec<_> = sim.clients(5..=20).map(start).collect();
    workers.run_for(Duration::from_secs(60));
    for client in clients {
        assert_eq!(client.outcome(), Some(ClientOutcome::Completed));
    }
}

fn report() -> FailureReport {
    let mut reports = (0..100).filter_map(|seed| explain("greets", seed, greets_every_client));
    reports.next().expect("a seed finds it")
}

#[test]
fn the_keyboard_leads_from_the_fault_to_the_lost_bytes() {
    let Some(mut page) = Page::open(&report().page()) else {
        return;
    };
    let lanes = page.lanes();
    let is_in_order = |pair: [&str; 2]| {
        let [one, two] = pair.map(|name| lanes.iter().position(|lane| lane.contains(name)));
        one.is_some() && one < two
    };
    assert_eq!(lanes[0], "client 0");
    let pairs = [
        ["client", "backlog"],
        ["backlog", "worker"],
        ["worker", "machine"],
    ];
    assert!(pairs.into_iter().all(is_in_order), "{lanes:?}");
    assert!(page.at().contains("the run ends at 60"), "{}", page.at());
    assert!(page.text("#title").starts_with("greets with seed "));
    assert!(page.text("#summary").is_empty(), "the report is folded");

    page.browser.press(HOME);
    assert!(page.at().starts_with("0.000000000 s: "), "{}", page.at());
    page.browser.press('f');
    assert!(
        page.at().contains("fault ShortWrite at worker"),
        "{}",
        page.at()
    );
    page.browser.press(RIGHT);
    assert!(page.at().contains(" of 5 bytes: client "), "{}", page.at());
    let state = page.text("#state");
    assert!(
        state.contains(" unsent since ") && state.contains(", 10.0.0.1:7 <- "),
        "{state}"
    );
    page.browser.press(LEFT);
    assert!(
        page.at().contains("fault ShortWrite at worker"),
        "{}",
        page.at()
    );
    assert!(!page.text("#state").contains("unsent"));
    page.browser.press(END);
    assert!(page.at().contains("the run ends"), "{}", page.at());
    // Only a real keyboard sends Shift with a capital letter, so the test clicks the button.
    page.browser
        .run("document.getElementById('fault-before').click()");
    assert!(page.at().contains("fault ShortWrite"), "{}", page.at());
    page.assert_no_error();
}

#[test]
fn a_click_and_a_search_move_the_cursor() {
    let Some(mut page) = Page::open(&report().page()) else {
        return;
    };
    let find = "const find = document.getElementById('find');
        document.getElementById('canvas').focus();
        state.cursor = 0;
        find.value = 'accepts';
        find.dispatchEvent(new Event('change'));";
    page.browser.run(find);
    assert!(page.at().contains(" accepts: client "), "{}", page.at());
    let first = "document.querySelector('#lines li').click()";
    page.browser.run(first);
    page.browser.wait_for(
        "the first line is current",
        "document.querySelector('#lines [aria-current]').innerText.includes(
            document.getElementById('at').innerText.split(': ')[0])",
    );
    // The click is in the middle of the picture, on the first lane or near it.
    let click = "const box = document.getElementById('canvas').getBoundingClientRect();
        document.getElementById('canvas').dispatchEvent(new MouseEvent('click',
            {clientX: box.left + box.width / 2, clientY: box.top + 35}));
        return document.querySelector('#lanes .is-current').innerText";
    let before = page.at();
    let lane = page.browser.run(click);
    assert_ne!(page.at(), before);
    assert!(lane.is_string(), "{lane}");
    let value = page
        .browser
        .run("return document.getElementById('canvas').ariaValueText");
    assert_eq!(value.as_str(), Some(page.at().as_str()));
    page.assert_no_error();
}

#[test]
fn the_picture_draws_every_kind_of_thing_and_a_key_changes_the_axis() {
    let Some(mut page) = Page::open(&report().page()) else {
        return;
    };
    page.browser.show_on(DESKTOP, Scheme::Light);
    page.browser.run("go(0)");
    // The script returns the names of the colours that no pixel of the picture has.
    let drawn = "const pen = canvas.getContext('2d');
        const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let at = 0; at < pixels.length; at += 4) {
            if (pixels[at + 3] === 255) {
                const hex = [0, 1, 2].map((it) => pixels[at + it].toString(16).padStart(2, '0'));
                seen.add('#' + hex.join(''));
            }
        }
        const colour = colours();
        return ['fault', 'step', 'report', 'move', 'turn', 'open', 'cursor', 'rule']
            .filter((name) => !seen.has(colour(name)));";
    page.browser
        .wait_for("it has its size", "canvas.width > 900");
    assert_eq!(page.browser.run(drawn), serde_json::json!([]));
    assert!(page.browser.run("return data.arrows.length").as_u64() > Some(2));
    page.browser.press('a');
    let pressed = "return document.getElementById('axis').ariaPressed";
    assert_eq!(page.browser.run(pressed), "true");
    page.browser.press('+');
    let width = page.browser.run("return state.to - state.from");
    assert_eq!(width.as_f64(), Some(0.5));
    page.assert_no_error();
}

#[test]
fn both_schemes_fit_a_phone_and_have_contrast() {
    let Some(mut page) = Page::open(&report().page()) else {
        return;
    };
    let texts = [
        "h1",
        "h2",
        "button",
        "label",
        "#lanes li",
        "#at",
        "td",
        "th",
        "#lines time",
        "#lines span",
        "footer",
        "kbd",
        "summary",
    ];
    let shapes = [("#legend li:nth-child(-n+6) span", "color")];
    let mut papers = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        for screen in [PHONE, DESKTOP] {
            page.browser.show_on(screen, scheme);
            let width = format!("innerWidth === {}", screen.width);
            page.browser.wait_for("the window has its size", &width);
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            page.browser.wait_for("no horizontal scroll", fits);
            assert_eq!(page.browser.faint(&texts, &shapes), [""; 0], "{scheme:?}");
        }
        let paper = "return getComputedStyle(document.body).backgroundColor";
        papers.push(page.browser.run(paper));
    }
    assert_ne!(papers[0], papers[1]);
    page.assert_no_error();
}
