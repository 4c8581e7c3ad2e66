//! Requests that two programs could read in two ways, and how this server must respond to each.
//!
//! A request is smuggled if a proxy and the server disagree about where the request before it ends.
//! So ambiguous requests are refused, and nothing behind them on the connection is interpreted. RFC
//! 9112 and RFC 9110 define what is ambiguous; comments give the sections.

/// A request, and the response that it must get.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The first bytes, before `rest`.
    pub(crate) start: &'static str,
    pub(crate) rest: &'static [u8],
    pub(crate) expected: Expected,
}

/// The expected response to a request, and the treatment of the request behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// The request gets this error, and the connection ends. The bytes behind it are not
    /// interpreted.
    Refused(u16),
    /// The request is valid and gets this status. The connection ends because the client requests
    /// that.
    Last(u16),
    /// The request gets this status, and the request behind it is served too.
    Served(u16),
}

use Expected::{Last, Refused, Served};

const fn case(
    name: &'static str,
    start: &'static str,
    rest: &'static [u8],
    expected: Expected,
) -> Case {
    Case {
        name,
        start,
        rest,
        expected,
    }
}

/// The start of a request whose body is sent back.
const ECHO: &str = "POST /echo HTTP/1.1\r\nHost: t\r\n";
/// The start of a request whose chunked body is sent back.
const CHUNKED: &str = "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
const GET: &str = "GET / HTTP/1.1\r\nHost: t\r\n";

pub(crate) const CASES: [&[Case]; 7] = [
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    CHUNKS,
    FIELDS,
    HOSTS_AND_TARGETS,
    REQUEST_LINES,
    OTHER_PROTOCOLS,
];

/// RFC 9112, section 6.3, and RFC 9110, section 8.6.
const CONTENT_LENGTH: &[Case] = &[
    case("a length", ECHO, b"Content-Length: 5\r\n\r\nhello", Served(200)),
    case("a length of 0", ECHO, b"Content-Length: 0\r\n\r\n", Served(200)),
    // The length is `1*DIGIT`, so leading zeros are allowed, and the number is not octal.
    case("a length with zeros in front", ECHO, b"Content-Length: 00010\r\n\r\nhello hell", Served(200)),
    case("white space around a length", ECHO, b"Content-Length: \t 5 \t\r\n\r\nhello", Served(200)),
    case("a length without white space", ECHO, b"content-LENGTH:5\r\n\r\nhello", Served(200)),
    // Equal lengths may be merged or refused. As in nginx, they are refused.
    case("two equal lengths", ECHO, b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", Refused(400)),
    case("two different lengths", ECHO, b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", Refused(400)),
    case("two lengths, one of them invalid", ECHO, b"Content-Length: 5\r\nContent-Length: x\r\n\r\nhello", Refused(400)),
    case("a list of equal lengths", ECHO, b"Content-Length: 5, 5\r\n\r\nhello", Refused(400)),
    case("a list of different lengths", ECHO, b"Content-Length: 5, 6\r\n\r\nhello", Refused(400)),
    case("a list with an empty member", ECHO, b"Content-Length: 5,\r\n\r\nhello", Refused(400)),
    case("a length with a plus", ECHO, b"Content-Length: +5\r\n\r\nhello", Refused(400)),
    case("a length with a minus", ECHO, b"Content-Length: -5\r\n\r\nhello", Refused(400)),
    case("a length of minus 0", ECHO, b"Content-Length: -0\r\n\r\n", Refused(400)),
    case("an empty length", ECHO, b"Content-Length:\r\n\r\nhello", Refused(400)),
    case("a length that is not a number", ECHO, b"Content-Length: x\r\n\r\n", Refused(400)),
    case("a length in hexadecimal", ECHO, b"Content-Length: 0x5\r\n\r\nhello", Refused(400)),
    case("a length with an exponent", ECHO, b"Content-Length: 5e0\r\n\r\nhello", Refused(400)),
    case("a length with a fraction", ECHO, b"Content-Length: 5.0\r\n\r\nhello", Refused(400)),
    case("a length with an underscore", ECHO, b"Content-Length: 1_0\r\n\r\nhello hell", Refused(400)),
    case("a length in quotes", ECHO, b"Content-Length: \"5\"\r\n\r\nhello", Refused(400)),
    case("a length with a parameter", ECHO, b"Content-Length: 5;a=b\r\n\r\nhello", Refused(400)),
    case("a space within a length", ECHO, b"Content-Length: 1 0\r\n\r\nhello hell", Refused(400)),
    case("a vertical tab before a length", ECHO, b"Content-Length: \x0b5\r\n\r\nhello", Refused(400)),
    case("a NUL after a length", ECHO, b"Content-Length: 5\0\r\n\r\nhello", Refused(400)),
    case("a full-width digit", ECHO, b"Content-Length: \xef\xbc\x95\r\n\r\nhello", Refused(400)),
    case("a folded length", ECHO, b"Content-Length:\r\n 5\r\n\r\nhello", Refused(400)),
    case("a length beyond the limit", ECHO, b"Content-Length: 1048577\r\n\r\n", Refused(413)),
    case("a length that wraps to 5 in 32 bits", ECHO, b"Content-Length: 4294967301\r\n\r\nhello", Refused(413)),
    case("a length that wraps to 5 in 64 bits", ECHO, b"Content-Length: 18446744073709551621\r\n\r\nhello", Refused(413)),
    case("a length of a thousand nines", ECHO, NINES, Refused(413)),
    // A field of another name has no meaning, and no body follows.
    case("a length with an underscore in its name", ECHO, b"Content_Length: 5\r\n\r\n", Served(200)),
    case("a length for a request that needs no body", GET, b"Content-Length: 5\r\n\r\nhello", Served(200)),
    case("a body that looks like a request", GET, b"Content-Length: 33\r\n\r\nGET /bytes/7 HTTP/1.1\r\nHost: t\r\n\r\n", Served(200)),
    case("a body for an unknown path", "POST /nowhere HTTP/1.1\r\nHost: t\r\n", b"Content-Length: 5\r\n\r\nhello", Served(404)),
    case("a body for a wrong method", "PUT / HTTP/1.1\r\nHost: t\r\n", b"Content-Length: 5\r\n\r\nhello", Served(405)),
];

const NINES: &[u8] = &{
    const START: &[u8] = b"Content-Length: ";
    let mut bytes = [b'9'; START.len() + 1000 + 4];
    let mut at = 0;
    while at < START.len() {
        bytes[at] = START[at];
        at += 1;
    }
    let end = bytes.len();
    bytes[end - 4] = b'\r';
    bytes[end - 3] = b'\n';
    bytes[end - 2] = b'\r';
    bytes[end - 1] = b'\n';
    bytes
};

/// RFC 9112, sections 6.1 and 6.3.
const TRANSFER_ENCODING: &[Case] = &[
    case("chunked", ECHO, b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Served(200)),
    case("chunked in capitals", ECHO, b"TRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n", Served(200)),
    case("white space around chunked", ECHO, b"Transfer-Encoding:\t chunked \t\r\n\r\n0\r\n\r\n", Served(200)),
    // Empty members of a list are ignored (RFC 9110, section 5.6.1).
    case("chunked after an empty member", ECHO, b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", Served(200)),
    case("length and chunked", ECHO, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked and length", ECHO, b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked and a length of 0", ECHO, b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", Refused(400)),
    case("identity and length", ECHO, b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", Refused(400)),
    case("xchunked and length", ECHO, b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nhello", Refused(400)),
    case("an empty coding and length", ECHO, b"Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello", Refused(400)),
    case("chunked, identity", ECHO, b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", Refused(400)),
    case("identity alone", ECHO, b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n", Refused(400)),
    case("gzip alone", ECHO, b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked, gzip", ECHO, b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", Refused(400)),
    case("an empty coding", ECHO, b"Transfer-Encoding:\r\n\r\n0\r\n\r\n", Refused(400)),
    case("xchunked", ECHO, b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunkedx", ECHO, b"Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chun ked", ECHO, b"Transfer-Encoding: chun ked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked in quotes", ECHO, b"Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked with a parameter", ECHO, b"Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked, chunked", ECHO, b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked in two lines", ECHO, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked, and identity in a second line", ECHO, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked, and gzip in a second line", ECHO, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", Refused(400)),
    case("a vertical tab before chunked", ECHO, b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("a NUL after chunked", ECHO, b"Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n", Refused(400)),
    case("a byte above 127 after chunked", ECHO, b"Transfer-Encoding: chunked\x85\r\n\r\n0\r\n\r\n", Refused(400)),
    case("a folded chunked", ECHO, b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("a space before the colon of the coding", ECHO, b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("a line end before the colon of the coding", ECHO, b"Transfer-Encoding\r\n: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("a bare CR before the coding", ECHO, b"X: x\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    // The server does not have these codings: the end of the body is known, but not the content.
    case("gzip, chunked", ECHO, b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Refused(501)),
    case("gzip and chunked in two lines", ECHO, b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(501)),
    case("identity, chunked", ECHO, b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", Refused(501)),
    case("an underscore in the coding's name", ECHO, b"Transfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello", Served(200)),
    case("chunked for a request that needs no body", GET, b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Served(200)),
    case("chunked for HTTP/1.0", "POST /echo HTTP/1.0\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    case("chunked and length for HTTP/1.0", "POST /echo HTTP/1.0\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
];

/// RFC 9112, section 7.1. Only CR LF ends a line here.
const CHUNKS: &[Case] = &[
    case("two chunks", CHUNKED, b"5\r\nhello\r\nA\r\n world, wo\r\n0\r\n\r\n", Served(200)),
    case("a size with zeros in front", CHUNKED, b"0005\r\nhello\r\n000\r\n\r\n", Served(200)),
    case("extensions", CHUNKED, b"5;a;b=c;d=\"e;f\"\r\nhello\r\n0;g\r\n\r\n", Served(200)),
    // Section 7.1.1 allows white space (BWS) around `;` and `=`, and a recipient must accept it
    // (RFC 9110, section 5.6.3). The name of an extension has to follow the `;`.
    case("white space before an extension", CHUNKED, b"5 \t;a=b\r\nhello\r\n0 ;a\r\n\r\n", Served(200)),
    case("white space within an extension", CHUNKED, b"5; a\t= \tb ;\tc ;d=\t\"e\" ; f\r\nhello\r\n0\r\n\r\n", Served(200)),
    case("a quoted extension with escapes", CHUNKED, b"5;a=\"\\\"\\\\;\xff\";b=\"\"\r\nhello\r\n0\r\n\r\n", Served(200)),
    case("white space after a size", CHUNKED, b"5  \r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("white space after the last size", CHUNKED, b"5\r\nhello\r\n0 \r\n\r\n", Refused(400)),
    case("a tab after a size", CHUNKED, b"5\t\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a semicolon after a size", CHUNKED, b"5;\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a semicolon and white space after a size", CHUNKED, b"5; \r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a semicolon after an extension", CHUNKED, b"5;a;\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("two semicolons", CHUNKED, b"5;;a\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("an extension without a name", CHUNKED, b"5;=x\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("an extension without a value", CHUNKED, b"5;a=\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("an extension with two values", CHUNKED, b"5;a=b=c\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("two words as an extension", CHUNKED, b"5;a b\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("two words as the value of an extension", CHUNKED, b"5;a=b c\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("white space after an extension", CHUNKED, b"5;a \r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("white space after a value of an extension", CHUNKED, b"5;a=b \r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a comma in the name of an extension", CHUNKED, b"5;a,b\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a byte above 127 in the name of an extension", CHUNKED, b"5;\xe4\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a byte above 127 in the value of an extension", CHUNKED, b"5;a=\xe4\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a quoted name of an extension", CHUNKED, b"5;\"a\"\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a quote that does not end", CHUNKED, b"5;a=\"b\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("an escaped quote that does not end", CHUNKED, b"5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a byte after a quoted value", CHUNKED, b"5;a=\"b\"c\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a quote within a value of an extension", CHUNKED, b"5;a=b\"c\"\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("an escaped NUL in an extension", CHUNKED, b"5;a=\"\\\0\"\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a trailer", CHUNKED, b"5\r\nhello\r\n0\r\nA: b\r\n\r\n", Served(200)),
    // Trailers are discarded, so they do not affect the end of the body (RFC 9110, section 6.5.1).
    case("a length as a trailer", CHUNKED, b"5\r\nhello\r\n0\r\nContent-Length: 500\r\n\r\n", Served(200)),
    case("a coding as a trailer", CHUNKED, b"5\r\nhello\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n", Served(200)),
    case("a host as a trailer", CHUNKED, b"5\r\nhello\r\n0\r\nHost: other\r\n\r\n", Served(200)),
    case("a size with a plus", CHUNKED, b"+5\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a size with a minus", CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a size with 0x", CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a size with an underscore", CHUNKED, b"0_5\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("white space before a size", CHUNKED, b" 5\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a tab before a size", CHUNKED, b"\t5\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("two sizes", CHUNKED, b"5 6\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a size in quotes", CHUNKED, b"\"5\"\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("no size", CHUNKED, b"\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("an extension without a size", CHUNKED, b";a=b\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("words in place of a size", CHUNKED, b"not a size\r\n", Refused(400)),
    case("a size that is not a number", CHUNKED, b"five\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a NUL after a size", CHUNKED, b"5\0\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a bare LF after a size", CHUNKED, b"5\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a bare CR after a size", CHUNKED, b"5\rhello\r\n0\r\n\r\n", Refused(400)),
    case("two CR after a size", CHUNKED, b"5\r\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a bare LF in an extension", CHUNKED, b"5;a\nb\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a bare CR in an extension", CHUNKED, b"5;a\rb\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a line end in a quoted extension", CHUNKED, b"5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a NUL in an extension", CHUNKED, b"5;a\0\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("no CR LF after the data", CHUNKED, b"5\r\nhello0\r\n\r\n", Refused(400)),
    case("a bare LF after the data", CHUNKED, b"5\r\nhello\n0\r\n\r\n", Refused(400)),
    case("a bare CR after the data", CHUNKED, b"5\r\nhello\r0\r\n\r\n", Refused(400)),
    case("more data than the size", CHUNKED, b"3\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("less data than the size", CHUNKED, b"7\r\nhello\r\n0\r\n\r\n", Refused(400)),
    case("a request in place of the last line", CHUNKED, b"5\r\nhello\r\n0\r\nGET /bytes/7 HTTP/1.1\r\n\r\n", Refused(400)),
    case("a trailer without a colon", CHUNKED, b"0\r\nA\r\n\r\n", Refused(400)),
    case("a trailer without a name", CHUNKED, b"0\r\n: b\r\n\r\n", Refused(400)),
    case("a space before the colon of a trailer", CHUNKED, b"0\r\nA : b\r\n\r\n", Refused(400)),
    case("a folded trailer", CHUNKED, b"0\r\nA: b\r\n c\r\n\r\n", Refused(400)),
    case("a bare LF after a trailer", CHUNKED, b"0\r\nA: b\n\r\n", Refused(400)),
    case("a bare CR in a trailer", CHUNKED, b"0\r\nA: b\rc\r\n\r\n", Refused(400)),
    case("a NUL in a trailer", CHUNKED, b"0\r\nA: \0\r\n\r\n", Refused(400)),
    case("a bare LF as the last line", CHUNKED, b"0\r\n\n", Refused(400)),
    case("a bare LF after the last size", CHUNKED, b"0\n\r\n", Refused(400)),
    case("a bare CR as the last line", CHUNKED, b"0\r\n\r", Refused(400)),
    case("a size that wraps to 5 in 32 bits", CHUNKED, b"100000005\r\nhello\r\n0\r\n\r\n", Refused(413)),
    case("a size that wraps to 5 in 64 bits", CHUNKED, b"10000000000000005\r\nhello\r\n0\r\n\r\n", Refused(413)),
    case("the largest size in 64 bits", CHUNKED, b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", Refused(413)),
    case("a size of minus 2 in 64 bits", CHUNKED, b"fffffffffffffffe\r\nhello\r\n0\r\n\r\n", Refused(413)),
    case("a size of 17 digits", CHUNKED, b"00000000000000005\r\nhello\r\n00000000000000000\r\n\r\n", Served(200)),
    case("a size of 17 digits beyond the limit", CHUNKED, b"00000000000100001\r\nhello\r\n0\r\n\r\n", Refused(413)),
];

/// RFC 9112, sections 2.2 and 5, and RFC 9110, section 5.5.
const FIELDS: &[Case] = &[
    // A recipient may accept a single LF as the end of a line of the head. This server does, like
    // nginx.
    case("bare LF line ends", "GET / HTTP/1.1\nHost: t\n", b"\n", Served(200)),
    case("a length in a line with a bare LF", ECHO, b"Content-Length: 5\nX: y\r\n\r\nhello", Served(200)),
    case("an empty line first", "\r\nGET / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(200)),
    case("a value with bytes above 127", GET, b"X: \xff\xfe\r\n\r\n", Served(200)),
    case("an empty value", GET, b"X:\r\n\r\n", Served(200)),
    case("a colon in a value", GET, b"X: Content-Length: 5\r\n\r\n", Served(200)),
    case("a space before the colon of a length", ECHO, b"Content-Length : 5\r\n\r\nhello", Refused(400)),
    case("a tab before the colon of a length", ECHO, b"Content-Length\t: 5\r\n\r\nhello", Refused(400)),
    case("a NUL before the colon of a length", ECHO, b"Content-Length\0: 5\r\n\r\nhello", Refused(400)),
    case("a byte above 127 in a name", ECHO, b"Content-Length\xa0: 5\r\n\r\nhello", Refused(400)),
    case("a field without a name", GET, b": x\r\n\r\n", Refused(400)),
    case("a field without a colon", GET, b"X\r\n\r\n", Refused(400)),
    case("a name with a space", GET, b"X Y: z\r\n\r\n", Refused(400)),
    case("a folded value", GET, b"X: y\r\n z\r\n\r\n", Refused(400)),
    case("a folded value with a tab", GET, b"X: y\r\n\tz\r\n\r\n", Refused(400)),
    case("a length as a folded line", ECHO, b"X: y\r\n Content-Length: 5\r\n\r\nhello", Refused(400)),
    case("white space before the first field", "POST /echo HTTP/1.1\r\n Host: t\r\n", b"Content-Length: 5\r\n\r\nhello", Refused(400)),
    case("a NUL in a value", GET, b"X: a\0b\r\n\r\n", Refused(400)),
    case("a bare CR in a value", GET, b"X: a\rb\r\n\r\n", Refused(400)),
    case("a bare CR before a length", ECHO, b"X: a\rContent-Length: 5\r\n\r\nhello", Refused(400)),
    case("two CR at the end of a line", ECHO, b"Content-Length: 5\r\r\n\r\nhello", Refused(400)),
    case("a bare CR as the empty line", GET, b"\r\r\n", Refused(400)),
    case("a backspace in a value", GET, b"X: a\x08b\r\n\r\n", Refused(400)),
    case("a delete in a value", GET, b"X: a\x7fb\r\n\r\n", Refused(400)),
    // An upgrade that the server does not make is ignored (RFC 9110, section 7.8).
    case("an upgrade to h2c", GET, b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", Served(200)),
    case("a connection that is kept and closed", GET, b"Connection: keep-alive, close\r\n\r\n", Last(200)),
    case("close in a second line", GET, b"Connection: keep-alive\r\nConnection: x,CLOSE\r\n\r\n", Last(200)),
];

/// RFC 9112, section 3.2, and RFC 9110, section 7.2.
const HOSTS_AND_TARGETS: &[Case] = &[
    // The host of the target counts, but no route depends on it.
    case("a target with another host", "GET http://other/ HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(200)),
    case("a target with a host, and an empty one", "GET http://other/ HTTP/1.1\r\nHost:\r\n", b"\r\n", Served(200)),
    case("an empty host", "GET / HTTP/1.1\r\nHost:\r\n", b"\r\n", Served(200)),
    case("no host for HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n", b"\r\n", Served(200)),
    case("no host", "GET / HTTP/1.1\r\n", b"\r\n", Refused(400)),
    case("a target with a host, and no other", "GET http://t/ HTTP/1.1\r\n", b"\r\n", Refused(400)),
    case("two hosts", GET, b"Host: other\r\n\r\n", Refused(400)),
    case("two equal hosts", GET, b"host: t\r\n\r\n", Refused(400)),
    case("two hosts for HTTP/1.0", "GET / HTTP/1.0\r\nHost: t\r\n", b"Host: other\r\n\r\n", Refused(400)),
    case("a list of hosts", "GET / HTTP/1.1\r\nHost: t, other\r\n", b"\r\n", Refused(400)),
    case("a host with a path", "GET / HTTP/1.1\r\nHost: t/x\r\n", b"\r\n", Refused(400)),
    case("a host with a user", "GET / HTTP/1.1\r\nHost: a@t\r\n", b"\r\n", Refused(400)),
    case("a host with a wrong port", "GET / HTTP/1.1\r\nHost: t:-1\r\n", b"\r\n", Refused(400)),
    case("a host with a NUL", "GET / HTTP/1.1\r\nHost: t\0\r\n", b"\r\n", Refused(400)),
    case("a space before the colon of a host", "GET / HTTP/1.1\r\nHost : t\r\n", b"\r\n", Refused(400)),
    case("a folded host", "GET / HTTP/1.1\r\nHost:\r\n t\r\n", b"\r\n", Refused(400)),
    // These targets do not exist on this server.
    case("a target of another scheme", "GET https://t/ HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(404)),
    case("a target without its host", "GET http:/// HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(404)),
    case("a target that is a host", "GET t:80 HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(404)),
    // The following bytes may be meant for the other end of the tunnel, so the connection ends.
    case("a tunnel", "CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n", b"\r\n", Refused(405)),
    case("a tunnel to a path", "CONNECT / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(405)),
    case("a tunnel with a body", "CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n", b"Content-Length: 5\r\n\r\nhello", Refused(405)),
    case("a target with two slashes", "GET //other/ HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(404)),
    // The target `*` means the server as a whole (RFC 9110, section 9.3.7). For methods other than
    // OPTIONS it is invalid.
    case("an asterisk", "OPTIONS * HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(200)),
    case("an asterisk with a body", "OPTIONS * HTTP/1.1\r\nHost: t\r\n", b"Content-Length: 5\r\n\r\nhello", Served(200)),
    case("an asterisk for another method", "GET * HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(404)),
    case("the options of a path", "OPTIONS / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(405)),
    case("a target with an encoded line end", "GET /%0d%0aX:y HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(404)),
    case("a NUL in a target", "GET /a\0b HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a tab in a target", "GET /a\tb HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a space in a target", "GET /a b HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a bare CR in a target", "GET /a\rb HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
];

/// RFC 9112, sections 2.3 and 3.
const REQUEST_LINES: &[Case] = &[
    case("HTTP/1.0 with a request behind it", "GET / HTTP/1.0\r\n", b"\r\n", Last(200)),
    case("HTTP/0.9", "GET /\r\n", b"", Refused(400)),
    case("HTTP/0.9 with fields", "GET /\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a request line of one word", "GARBAGE\r\n", b"\r\n", Refused(400)),
    case("HTTP/0.9 with its version", "GET / HTTP/0.9\r\n", b"\r\n", Refused(505)),
    // A later minor version is served as the server's own version (RFC 9110, section 2.5).
    case("HTTP/1.2", "GET / HTTP/1.2\r\nHost: t\r\n", b"\r\n", Served(200)),
    case("HTTP/1.9 after an empty line", "\r\nGET /bytes/1 HTTP/1.9\r\nHost: t\r\n", b"\r\n", Served(200)),
    case("HTTP/1.2 with a body", "POST /echo HTTP/1.2\r\nHost: t\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Served(200)),
    case("HTTP/1.2 without a host", "GET / HTTP/1.2\r\n", b"\r\n", Refused(400)),
    case("HTTP/1.2 that is closed", "GET / HTTP/1.2\r\nHost: t\r\n", b"Connection: close\r\n\r\n", Last(200)),
    case("a space after HTTP/1.2", "GET / HTTP/1.2 \r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("HTTP/1.20", "GET / HTTP/1.20\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("HTTP/0.2", "GET / HTTP/0.2\r\nHost: t\r\n", b"\r\n", Refused(505)),
    case("HTTP/2.0 in a request line", "GET / HTTP/2.0\r\nHost: t\r\n", b"\r\n", Refused(505)),
    case("HTTP/1.10", "GET / HTTP/1.10\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("HTTP/01.1", "GET / HTTP/01.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("HTTP/1", "GET / HTTP/1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("HTTP/1,1", "GET / HTTP/1,1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a version in small letters", "GET / http/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("the version of another protocol", "GET / ICAP/1.0\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("two versions", "GET / HTTP/1.1 HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a space after the version", "GET / HTTP/1.1 \r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("two spaces before the target", "GET  / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("two spaces before the version", "GET /  HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("tabs in place of spaces", "GET\t/\tHTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a space before the method", " GET / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("no method", "/ HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a method with a control byte", "G\x01T / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a method with a NUL", "GET\0 / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a method with a colon", "GET: / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Refused(400)),
    case("a bare CR after the version", "GET / HTTP/1.1\rHost: t\r\n", b"\r\n", Refused(400)),
    // Methods are case-sensitive (RFC 9110, section 9.1), and other methods are not allowed here.
    case("a method in small letters", "get / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(405)),
    case("an unknown method", "BREW / HTTP/1.1\r\nHost: t\r\n", b"\r\n", Served(405)),
];

const OTHER_PROTOCOLS: &[Case] = &[
    case("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\x04\0\0\0\0\0", Refused(505)),
    // A record with a client hello of TLS 1.2.
    case("a hello of TLS", "", b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03abcdefghijklmnopqrstuvwxyz012345\x00\x00\x02\x13\x01\x01\x00", Refused(400)),
    case("a hello of SSL 2", "", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10\r\n\r\n", Refused(400)),
    case("a hello of SOCKS 5", "", b"\x05\x01\x00\r\n\r\n", Refused(400)),
    case("the PROXY protocol, version 1", "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", b"GET / HTTP/1.1\r\nHost: t\r\n\r\n", Refused(400)),
    case("the PROXY protocol, version 2", "", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x01\x0a\0\0\x02\0\x01\0\x02", Refused(400)),
    case("control bytes", "", b"\0\x01\x02\r\n\r\n", Refused(400)),
    case("the banner of SSH", "SSH-2.0-x\r\n", b"", Refused(400)),
    case("a greeting of SMTP", "EHLO t\r\n", b"", Refused(400)),
    case("a request of RTSP", "DESCRIBE rtsp://t/ RTSP/1.0\r\nCSeq: 1\r\n", b"\r\n", Refused(400)),
    case("a request of Redis", "*1\r\n$4\r\nPING\r\n", b"", Refused(400)),
];
