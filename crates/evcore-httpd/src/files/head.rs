//! The heads of responses about files.

use evcore::clock::Clock;

use super::{Files, HeadEnd, OpenFile, Selection};
use crate::{
    response::{Status, write_decimal, write_end, write_start},
    route::path_of,
};

impl Files {
    /// Writes the head of a response with this status. Returns the length of its body.
    pub(super) fn write_head(
        &mut self,
        out: &mut Vec<u8>,
        status: Status,
        file: &OpenFile,
        selection: &Selection,
        (version, keep_alive): HeadEnd,
        clock: &Clock,
    ) -> u64 {
        if status == Status::Ok {
            let start = self.start.get(clock, |out, date| {
                write_start(out, Status::Ok, date);
            });
            out.extend_from_slice(start);
        } else {
            write_start(out, status, clock.http_date());
        }
        out.extend_from_slice(file.validators.as_bytes());
        let length = match (status, selection) {
            // A response of this status has no length, because it never has a body.
            (Status::NotModified, _) => {
                write_end(out, version, keep_alive);
                return 0;
            }
            (_, Selection::Whole) => file.size,
            (_, Selection::Part(part)) => {
                out.extend_from_slice(b"\r\nContent-Range: bytes ");
                write_decimal(out, part.start);
                out.push(b'-');
                write_decimal(out, part.end - 1);
                out.push(b'/');
                write_decimal(out, file.size);
                part.end - part.start
            }
            (_, Selection::Unsatisfiable) => {
                out.extend_from_slice(b"\r\nContent-Range: bytes */");
                write_decimal(out, file.size);
                0
            }
        };
        if *selection != Selection::Unsatisfiable {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(file.content_type.as_bytes());
        }
        out.extend_from_slice(b"\r\nContent-Length: ");
        write_decimal(out, length);
        write_end(out, version, keep_alive);
        length
    }
}

pub fn write_redirect(
    out: &mut Vec<u8>,
    target: &str,
    (version, keep_alive): HeadEnd,
    clock: &Clock,
) {
    let query = target.find('?').map_or("", |at| &target[at..]);
    write_start(out, Status::MovedPermanently, clock.http_date());
    // `Location` has no host, because the clients of a proxy may use another name for the server.
    for part in [
        "\r\nLocation: ",
        path_of(target),
        "/",
        query,
        "\r\nContent-Length: 0",
    ] {
        out.extend_from_slice(part.as_bytes());
    }
    write_end(out, version, keep_alive);
}
