//! The pictures of the dashboard in `docs/dashboard`.

use std::{
    error::Error,
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use evcore_tests::{Browser, Scheme, Screen, Server};

use crate::load::Load;

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

/// Two minutes of history, and a little more.
const RECORDED: u32 = 122;

/// The longest that the load may run.
const AT_MOST: Duration = Duration::from_secs(300);

/// The expression that is true when a new worker has some clients.
const ONE_BAR_GROWS: &str = "(() => {
    const bars = [...document.querySelectorAll('.bar:not(.old):not(.leaving)')];
    const heights = bars.map((bar) => parseFloat(bar.style.height)).sort((a, b) => a - b);
    return heights.length === 4 && heights[0] > 0.2 * heights[3] && heights[0] < 0.7 * heights[3]
        && document.querySelector('.bar.old') === null;
})()";

/// Takes the pictures while the load runs.
pub(crate) fn take(server: &Server, load: &mut Load<'_>, to: &Path) -> Result<(), Box<dyn Error>> {
    let browser = Browser::start();
    let mut browser = browser.ok_or("install chromium and chromium-driver")?;
    fs::create_dir_all(to)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| load.run(AT_MOST, &is_over));
        let taken = pictures(server, &mut browser, to);
        is_over.store(true, Ordering::Relaxed);
        taken
    })
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
            browser.wait_for("a bar that grows", ONE_BAR_GROWS);
            let path = to.join(format!("{device}-{colours}.png"));
            fs::write(&path, browser.screenshot())?;
            shrink(&path)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Reduces the colours, of which most are in the edges of letters.
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
