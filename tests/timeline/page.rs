//! The page of a timeline in a browser, with the calls that the tests need.

use std::fs;

use evcore_testing::Scratch;
use evcore_tests::Browser;

/// A page in a browser of its own.
pub(crate) struct Page {
    pub(crate) browser: Browser,
    _scratch: Scratch,
}

impl Page {
    /// Opens a page. Returns `None` if there is no browser.
    pub(crate) fn open(html: &str) -> Option<Self> {
        let mut browser = Browser::start()?;
        let scratch = Scratch::new("page");
        let file = scratch.file("page.html");
        fs::write(&file, html).expect("there is room");
        browser.open(&format!("file://{}", file.display()));
        browser.wait_for(
            "the page is drawn",
            "document.querySelector('#lines [aria-current]')",
        );
        Some(Self {
            browser,
            _scratch: scratch,
        })
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let script = format!("return document.querySelector(`{selector}`).innerText");
        let text = self.browser.run(&script);
        text.as_str().expect("an element").to_owned()
    }

    /// The names of the lanes (the rows of the picture), from top to bottom.
    pub(crate) fn lanes(&mut self) -> Vec<String> {
        let names = "return [...document.querySelectorAll('#lanes li')].map((it) => it.innerText)";
        let names = self.browser.run(names);
        let names = names.as_array().expect("a list").iter();
        names
            .map(|value| value.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The moment at the cursor, as text.
    pub(crate) fn at(&mut self) -> String {
        self.text("#at")
    }

    /// Asserts that the console has shown no error since the last call. The console shows an error
    /// if the page tries to load a file, for example.
    pub(crate) fn assert_no_error(&mut self) {
        assert_eq!(self.browser.take_console_errors(), [""; 0]);
    }
}
