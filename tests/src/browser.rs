//! Headless Chromium, driven through `chromedriver` by the W3C's protocol `WebDriver`.
//!
//! The client is written by hand, because the crates for this protocol bring an async runtime, an
//! HTTP client and TLS.

use std::{
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::{Value, json};

use crate::{Client, PATIENCE, Scratch, eventually, is_installed};

/// Options of a browser without a screen. The sandbox is off, because a container may forbid it.
/// The browser connects to no host of its vendor.
const OPTIONS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    // Greys at the edges of letters make smaller pictures than colours.
    "--disable-lcd-text",
];

/// A browser with one page. Dropping it ends the browser.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    connection: Client,
    session: String,
    _profile: Scratch,
}

/// The size of the page's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Pixels of a screenshot for each CSS pixel.
    pub scale: u32,
}

/// The colour scheme that the user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark text on a light page.
    Light,
    /// Light text on a dark page.
    Dark,
}

const FAINT: &str = "
    const channel = (it) => (it /= 255) <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4;
    const luminance = (colour) => {
        const [red, green, blue] = colour.match(/[0-9.]+/g).map(Number).map(channel);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const paper = luminance(getComputedStyle(document.body).backgroundColor);
    const contrast = (colour) => {
        const [high, low] = [luminance(colour), paper].sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05);
    };
    return checks.flatMap(([selector, property, least]) =>
        [...document.querySelectorAll(selector)]
            .map((element) => getComputedStyle(element)[property])
            .filter((colour) => contrast(colour) < least)
            .map((colour) => `${selector} ${colour}`));";

impl Browser {
    /// Starts the browser. If `chromium` or `chromedriver` is not installed, reports the calling
    /// test as not run, and returns `None`.
    ///
    /// # Panics
    ///
    /// If both are installed, and the browser does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        let programs = ["chromium", "chromedriver"];
        if !programs.into_iter().all(is_installed) {
            return None;
        }
        let profile = Scratch::new("chromium");
        let (driver, address) = start_driver(profile.path());
        let mut options: Vec<_> = OPTIONS.map(str::to_owned).into();
        options.push(format!("--user-data-dir={}", profile.path().display()));
        let mut browser = Self {
            driver,
            connection: Client::connect(address),
            session: "/session".to_owned(),
            _profile: profile,
        };
        let created = browser.post(
            "",
            &json!({"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:chromeOptions": {"args": options},
                "goog:loggingPrefs": {"browser": "ALL"},
                "timeouts": {"script": PATIENCE.as_millis()},
            }}}),
        );
        let id = created["sessionId"].as_str().expect("a session");
        browser.session = format!("/session/{id}");
        Some(browser)
    }

    /// Opens a page, and waits until it is loaded.
    ///
    /// # Panics
    ///
    /// If the browser cannot open it.
    pub fn open(&mut self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// Runs a function body of JavaScript in the page. Returns its value.
    ///
    /// # Panics
    ///
    /// If the script throws.
    pub fn run(&mut self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression of JavaScript is true in the page. `what` describes it in the
    /// panic message.
    ///
    /// # Panics
    ///
    /// If the expression throws, or is not true within half of [`PATIENCE`].
    pub fn wait_for(&mut self, what: &str, condition: &str) {
        // The page itself evaluates the expression, so that not every check needs a request.
        let deadline = PATIENCE.as_millis() / 2;
        let script = format!(
            "const done = arguments[arguments.length - 1];
            const deadline = performance.now() + {deadline};
            (function look() {{
                if ({condition}) done(true);
                else if (performance.now() > deadline) done(false);
                else setTimeout(look, 20);
            }})();"
        );
        let result = self.post("/execute/async", &json!({"script": script, "args": []}));
        if result != json!(true) {
            let page = self.run("return document.body.innerText");
            let page = page.as_str().unwrap_or_default();
            panic!("gave up waiting: {what}; the page:\n{page}");
        }
    }

    /// Presses and releases a key. The standard has a table of the keys without a character, such
    /// as `\u{E004}` for Tab.
    ///
    /// # Panics
    ///
    /// If the browser refuses.
    pub fn press(&mut self, key: char) {
        let actions = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.post("/actions", &json!({"actions": [keyboard]}));
    }

    /// Returns the elements whose colour has too little contrast with the page's background (WCAG
    /// 2.2), each as its selector and its colour. `texts` are selectors; their limit is 4.5.
    /// `shapes` are selectors, each with the CSS property that has the colour; their limit is 3.
    ///
    /// # Panics
    ///
    /// If the browser refuses.
    pub fn faint(&mut self, texts: &[&str], shapes: &[(&str, &str)]) -> Vec<String> {
        let checks = texts.iter().map(|selector| json!([selector, "color", 4.5]));
        let of_shape = |(selector, property): &(&str, &str)| json!([selector, property, 3]);
        let checks: Vec<_> = checks.chain(shapes.iter().map(of_shape)).collect();
        let found = self.run(&format!("const checks = {};{FAINT}", Value::from(checks)));
        let found = found.as_array().expect("a list").iter();
        found
            .map(|value| value.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Takes the errors that the console has shown since the last call.
    ///
    /// # Panics
    ///
    /// If the browser does not return its log.
    pub fn take_console_errors(&mut self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        let entries = log.as_array().expect("a list").iter();
        let errors = entries.filter(|entry| entry["level"] == "SEVERE");
        errors.map(|entry| entry["message"].to_string()).collect()
    }

    /// Sets the size of the window and the preferred colours. A window narrower than 600 CSS pixels
    /// is emulated as a mobile device.
    ///
    /// # Panics
    ///
    /// If the browser refuses.
    pub fn show_on(&mut self, screen: Screen, scheme: Scheme) {
        let Screen {
            width,
            height,
            scale,
        } = screen;
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}),
        );
        let scheme = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Takes a picture of the window, as PNG.
    ///
    /// # Panics
    ///
    /// If the browser refuses.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let picture = self.request("GET", "/screenshot", "");
        from_base64(picture.as_str().expect("a picture"))
    }

    fn devtools(&mut self, command: &str, parameters: &Value) {
        self.post(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        );
    }

    fn post(&mut self, command: &str, body: &Value) -> Value {
        self.request("POST", command, &body.to_string())
    }

    fn request(&mut self, method: &str, command: &str, body: &str) -> Value {
        let (path, length) = (&self.session, body.len());
        self.connection.send(format!(
            "{method} {path}{command} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let response = self.connection.response();
        let mut answer: Value = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!(response.status, 200, "{command} {body}: {answer}");
        answer["value"].take()
    }
}

/// Starts `chromedriver` on a free port. The driver and the browser leave files in `directory`.
///
/// The driver ends if its port is free for only one of IPv4 and IPv6, so this function tries again.
fn start_driver(directory: &Path) -> (Child, SocketAddr) {
    let mut started = None;
    eventually("chromedriver listens", || {
        started = try_start_driver(directory);
        started.is_some()
    });
    started.expect("just waited for")
}

/// Returns `None` if the driver ends before it listens.
fn try_start_driver(directory: &Path) -> Option<(Child, SocketAddr)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.env("TMPDIR", directory);
    let mut driver = command.spawn().expect("it starts");
    let log = BufReader::new(driver.stdout.take().expect("it is piped"));
    let mut lines = log.lines().map_while(Result::ok);
    let port: Option<u16> = lines.find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    let Some(port) = port else {
        let _ = driver.wait();
        return None;
    };
    // The driver may write more, and a full pipe would block it.
    thread::spawn(move || lines.for_each(drop));
    Some((driver, (Ipv4Addr::LOCALHOST, port).into()))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Without this command, the browser outlives its driver.
        let end = format!(
            "DELETE {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            self.session
        );
        self.connection.send_lossy(end);
        let _ = self.connection.try_response();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::from_base64;

    #[test]
    fn base64_is_decoded_with_and_without_padding() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9vYmE=", "fooba"),
            ("Pz8/", "???"),
        ] {
            assert_eq!(from_base64(text), bytes.as_bytes());
        }
    }
}
