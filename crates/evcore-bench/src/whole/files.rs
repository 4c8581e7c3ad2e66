//! Files of `httpd --root` beside nginx, which keeps them open, too.

use std::fs;

use super::{LoadOf, saturate_all};
use crate::report::Report;
use crate::run::Run;
use crate::servers::{self, Nginx};

const NGINX: &str = "nginx, sendfile";
const TABLE: &str = "file";

const LOADS: [LoadOf; 2] = [file("4 KiB", "/files/small"), file("1 MiB", "/files/large")];

const fn file(column: &'static str, path: &'static str) -> LoadOf {
    LoadOf {
        table: TABLE,
        column,
        connections: 64,
        closes: false,
        path,
        divisor: 1e3,
    }
}

/// Measures both servers.
pub(super) fn measure(run: &Run, report: &mut Report) {
    let root = servers::folder(run).join("root");
    let written = fs::create_dir_all(root.join("files")).and_then(|()| {
        fs::write(root.join("files/small"), [b'.'; 4 << 10])?;
        fs::write(root.join("files/large"), vec![b'.'; 1 << 20])
    });
    if report
        .or_absent("files", written.map_err(|it| it.to_string()))
        .is_none()
    {
        return;
    }
    let nginx = Nginx {
        http: "sendfile on; open_file_cache max=1000;".to_owned(),
        location: format!("root \"{}\";", root.display()),
        ..Nginx::default()
    };
    let files = root.join("files").display().to_string();
    let programs = [
        servers::httpd(run, "httpd", &["--root", &files]),
        nginx.program(run, NGINX, report),
    ];
    saturate_all(run, "files", &programs, &LOADS, report);
}
