//! Turns of a calloop event loop.

use std::time::Duration;

use calloop::EventLoop;

pub(crate) fn until<D>(
    event_loop: &mut EventLoop<'_, D>,
    data: &mut D,
    has_happened: impl Fn(&D) -> bool,
) {
    while !has_happened(data) {
        event_loop.dispatch(None, data).expect("the loop turns");
    }
}

pub(crate) fn once<D>(event_loop: &mut EventLoop<'_, D>, data: &mut D) {
    event_loop
        .dispatch(Duration::ZERO, data)
        .expect("the loop turns");
}
