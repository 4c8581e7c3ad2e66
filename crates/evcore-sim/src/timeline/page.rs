//! The picture as one page of HTML.

use super::{Kind, SpanKind, Timeline, json};

/// The page, with placeholders for the style, the data and the script.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Timeline {
    /// A page that draws the picture: lanes over time, with sent bytes as arrows, and a table of
    /// the state at the cursor. The page loads nothing from elsewhere.
    ///
    /// The page of a long simulation shows the last 30,000 entries of the trace.
    #[must_use]
    pub fn to_html(&self) -> String {
        let (before, rest) = split(PAGE, "/* style */");
        let (between, rest) = split(rest, "{\"data\":0}");
        let (middle, after) = split(rest, "/* script */");
        [
            before,
            STYLE,
            between,
            &self.to_json(),
            middle,
            SCRIPT,
            after,
        ]
        .concat()
    }

    pub(super) fn sort_lanes(&mut self) {
        let mut order: Vec<usize> = (0..self.lanes.len()).collect();
        order.sort_by_key(|lane| self.lanes[*lane].group);
        let mut places = vec![0; order.len()];
        for (place, lane) in order.iter().enumerate() {
            places[*lane] = place;
        }
        self.lanes = order.iter().map(|lane| self.lanes[*lane].clone()).collect();
        for moment in &mut self.moments {
            moment.lane = places[moment.lane];
        }
        for span in &mut self.spans {
            span.lane = places[span.lane];
        }
    }

    fn to_json(&self) -> String {
        let number = |index: usize| index as u64;
        let lanes = self.lanes.iter().map(|lane| json::string(&lane.name));
        let moments = self.moments.iter().map(|moment| {
            json::numbers([
                moment.at_ns,
                number(moment.lane),
                moment.kind as u64,
                number(moment.text),
            ])
        });
        let spans = self.spans.iter().map(|span| {
            let [first, last] = span.ends.map(number);
            json::numbers([number(span.lane), first, last, span.kind as u64])
        });
        let arrows = self
            .arrows
            .iter()
            .map(|ends| json::numbers(ends.map(number)));
        let rows = self.rows.iter().map(|row| {
            let changes = row
                .changes
                .iter()
                .map(|change| json::numbers(change.map(number)));
            json::list([row.name.to_string(), json::list(changes)])
        });
        let texts = self.texts.texts.iter().map(|text| json::string(text));
        let kinds = KINDS.map(|kind| json::string(&format!("{kind:?}")));
        let span_kinds = SPAN_KINDS.map(|kind| json::string(&format!("{kind:?}")));
        let members = [
            ("title", json::string(&self.title)),
            ("summary", json::string(&self.summary)),
            ("kinds", json::list(kinds)),
            ("spanKinds", json::list(span_kinds)),
            ("lanes", json::list(lanes)),
            ("moments", json::list(moments)),
            ("spans", json::list(spans)),
            ("arrows", json::list(arrows)),
            ("rows", json::list(rows)),
            ("texts", json::list(texts)),
        ];
        let members = members.map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", members.join(",\n"))
    }
}

/// All kinds, in the order of their numbers.
const KINDS: [Kind; 6] = [
    Kind::Fault,
    Kind::Step,
    Kind::Report,
    Kind::Move,
    Kind::Note,
    Kind::Other,
];

/// All kinds, in the order of their numbers.
const SPAN_KINDS: [SpanKind; 4] = [
    SpanKind::Turn,
    SpanKind::Paused,
    SpanKind::Dead,
    SpanKind::Open,
];

fn split<'a>(text: &'a str, at: &str) -> (&'a str, &'a str) {
    text.split_once(at)
        .expect("the page has its three placeholders")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed_at_their_numbers() {
        let kinds = KINDS.into_iter().map(|kind| kind as usize);
        assert!(kinds.eq(0..KINDS.len()));
        let kinds = SPAN_KINDS.into_iter().map(|kind| kind as usize);
        assert!(kinds.eq(0..SPAN_KINDS.len()));
    }

    #[test]
    fn a_page_has_style_data_and_script_and_no_address() {
        let page = Timeline::new("</script>").to_html();
        assert!(page.contains("\"title\":\"\\u003c/script>\""));
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(page.contains("addEventListener"));
        for elsewhere in ["http:", "https:", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }
}
