//! Connections that are taken out of a loop in order to move to another worker.

use evcore::{Acceptor, Connections, EventLoop, Token};
use evcore_handover::{Connection, STATE_BYTES_MAX};

/// The state of a connection that leaves, and the token of its partner.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) state: Vec<u8>,
    pub(crate) partner: Option<Token>,
}

/// Takes out of the loop the connections for which `leaves` returns a state, until `room` of them
/// are taken. A partner (the second connection of a session) is taken along and counts too, so one
/// connection more than `room` may be taken.
pub(crate) fn take<T, S: Into<D>, D>(
    ev: &mut EventLoop<impl Acceptor<Stream = S>>,
    connections: &mut Connections<T, S>,
    room: usize,
    mut leaves: impl FnMut(Token, &mut Connections<T, S>) -> Option<Leaving>,
) -> Vec<Connection<D>> {
    let tokens: Vec<Token> = connections.iter_mut().map(|(token, _)| token).collect();
    let (mut taken, mut streams) = (Vec::new(), 0);
    for token in tokens {
        if streams >= room {
            break;
        }
        // A partner may have left with an earlier connection.
        if connections.get(token).is_none() {
            continue;
        }
        let Some(Leaving { state, partner }) = leaves(token, connections) else {
            continue;
        };
        let length = state.len();
        assert!(
            length <= STATE_BYTES_MAX,
            "a connection's state has {length} bytes; at most {STATE_BYTES_MAX} can be handed over"
        );
        let mut remove = |token| {
            let (stream, _) = connections.remove(ev, token).expect("it is open");
            stream.into()
        };
        let descriptor = remove(token);
        let partner = partner.map(remove);
        streams += 1 + usize::from(partner.is_some());
        taken.push(Connection {
            descriptor,
            partner,
            state,
        });
    }
    taken
}
