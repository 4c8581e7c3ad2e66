//! The dashboard's page in a browser, with the calls that the tests need.

use evcore_tests::{Browser, Client, Server};

pub(crate) struct Page {
    pub(crate) browser: Browser,
}

impl Page {
    /// Opens the page, and waits until it shows the server's numbers. Returns `None` if there is no
    /// browser.
    pub(crate) fn open(server: &Server) -> Option<Self> {
        let mut browser = Browser::start()?;
        browser.open(&format!("http://{}/dashboard", server.address()));
        let mut page = Self { browser };
        page.wait_for_state("live");
        Some(page)
    }

    /// Waits for the state `live`, `paused` or `gone`.
    pub(crate) fn wait_for_state(&mut self, state: &str) {
        let condition = format!("document.getElementById('state').dataset.state === '{state}'");
        self.browser.wait_for(state, &condition);
    }

    /// Waits until a JavaScript expression is true. In it, `$` finds an element by its selector,
    /// and `$$` finds all such elements.
    pub(crate) fn wait_for(&mut self, what: &str, condition: &str) {
        let condition = format!(
            "(($, $$) => {condition})((it) => document.querySelector(it), \
             (it) => [...document.querySelectorAll(it)])"
        );
        self.browser.wait_for(what, &condition);
    }

    /// Clicks the button that pauses the page or continues it, and waits until that has taken
    /// effect.
    pub(crate) fn click_pause(&mut self) {
        self.browser.run("document.getElementById('pause').click()");
        self.browser.wait_for(
            "no request is under way",
            "!state.isAsking || state.pausedAt === null",
        );
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let script = format!("return document.querySelector(`{selector}`).innerText");
        let text = self.browser.run(&script);
        text.as_str().expect("an element").to_owned()
    }

    pub(crate) fn number(&mut self, selector: &str) -> u64 {
        let text = self.text(selector);
        let digits = text.replace(',', "");
        digits
            .parse()
            .unwrap_or_else(|_| panic!("not a number in {selector}: {text:?}"))
    }

    pub(crate) fn assert_no_error(&mut self) {
        assert_eq!(self.browser.take_console_errors(), [""; 0]);
    }
}

/// Connects 40 clients, and disconnects up to six that one worker serves, so that the load is
/// uneven. Returns the other clients, each with the process id of its worker.
pub(crate) fn uneven_clients(server: &Server) -> Vec<(Client, u32)> {
    let clients = (0..40).map(|_| {
        let mut client = server.connect();
        let worker = client.worker();
        (client, worker)
    });
    let mut clients: Vec<_> = clients.collect();
    let leaving = clients[0].1;
    let mut left = 0;
    clients.retain(|(_, worker)| {
        let leaves = *worker == leaving && left < 6;
        left += u32::from(leaves);
        !leaves
    });
    clients
}
