//! Takes the pictures of the dashboard in `docs/dashboard`, from `httpd --demo`:
//!
//!     cargo xtask screenshots

use std::{env, error::Error, fs, path::Path, process::Command};

use evcore_tests::{Browser, Scheme, Screen, Server};

const DESKTOP: Screen = Screen {
    width: 1120,
    height: 728,
    scale: 1,
};
const PHONE: Screen = Screen {
    width: 360,
    height: 780,
    scale: 2,
};

/// Seconds of history in the pictures, a little more than two minutes.
const RECORDED: u32 = 122;

/// The expression that is true when the bars are even, no old worker is left, and both a kill and a
/// reload are in the picture.
const IS_EVEN: &str = "(() => {
    const bars = [...document.querySelectorAll('.bar:not(.old):not(.leaving)')];
    const heights = bars.map((bar) => parseFloat(bar.style.height)).sort((a, b) => a - b);
    return heights.length === 4 && heights[0] > 0.9 * heights[3] && heights[3] > 40
        && document.querySelector('.bar.old') === null
        && document.querySelector('path.mark.restart') && document.querySelector('path.mark.reload');
})()";

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "screenshots HTTPD DIRECTORY";
    let mut args = env::args_os().skip(1);
    let (httpd, directory) = (args.next().ok_or(usage)?, args.next().ok_or(usage)?);
    let mut command = Command::new(httpd);
    command.args(["--listen", "127.0.0.1:0", "--workers", "4", "--demo"]);
    let server = Server::from_command(command, 1);
    let browser = Browser::start();
    let mut browser = browser.ok_or("install chromium and chromium-driver")?;
    fs::create_dir_all(&directory)?;
    pictures(&server, &mut browser, Path::new(&directory))
}

fn pictures(server: &Server, browser: &mut Browser, to: &Path) -> Result<(), Box<dyn Error>> {
    browser.open(&format!("http://{}/dashboard", server.address()));
    for seconds in (1..=RECORDED).step_by(10) {
        let condition = format!("performance.now() > {seconds}e3");
        browser.wait_for("the history grows", &condition);
    }
    for (screen, device) in [(DESKTOP, "desktop"), (PHONE, "phone")] {
        for (scheme, colours) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
            browser.show_on(screen, scheme);
            browser.wait_for("even bars", IS_EVEN);
            let path = to.join(format!("{device}-{colours}.png"));
            fs::write(&path, browser.screenshot())?;
            shrink(&path)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Reduces the number of colours, most of which are at the edges of letters.
fn shrink(picture: &Path) -> Result<(), Box<dyn Error>> {
    let mut shrink = Command::new("pngquant");
    shrink.args(["--force", "--ext", ".png", "96"]).arg(picture);
    let shrunk = shrink.status();
    match shrunk
        .map_err(|error| format!("install pngquant: {error}"))?
        .success()
    {
        true => Ok(()),
        false => Err(format!("pngquant refused {}", picture.display()).into()),
    }
}
