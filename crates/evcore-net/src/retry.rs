//! Retries while an address is in use.
//!
//! The caller waits, and decides whether to go on. So tests do not wait, and a server that has to
//! stop can give up.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::error::Error;

/// Number of retries while an address is in use. (nginx makes five attempts in all.)
const RETRIES: u32 = 5;

/// The pause before each retry, as in nginx.
const PAUSE: Duration = Duration::from_millis(500);

/// Repeats `attempt` while the address is in use, with a `pause` before each retry.
///
/// The whole attempt is repeated, because both `bind` and `listen` can fail with "address in use".
pub(crate) fn while_in_use<T>(
    mut attempt: impl FnMut() -> Result<T, Error>,
    mut pause: impl FnMut(Duration) -> ControlFlow<()>,
) -> Result<T, Error> {
    for _ in 0..RETRIES {
        let attempted = attempt();
        let is_in_use = matches!(attempted, Err(Error::AddressInUse { .. }));
        if !is_in_use || pause(PAUSE).is_break() {
            return attempted;
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::loopback::LOCALHOST;

    fn in_use() -> Error {
        Error::AddressInUse {
            address: LOCALHOST.into(),
        }
    }

    #[test]
    fn an_address_in_use_is_retried_five_times() {
        let (mut attempts, mut paused) = (0, Duration::ZERO);
        let result = while_in_use::<()>(
            || {
                attempts += 1;
                Err(in_use())
            },
            |pause| {
                paused += pause;
                ControlFlow::Continue(())
            },
        );
        assert!(matches!(result, Err(Error::AddressInUse { .. })));
        assert_eq!((attempts, paused), (6, Duration::from_millis(2_500)));
    }

    #[test]
    fn retrying_ends_when_the_address_is_free() {
        let (mut attempts, mut pauses) = (0, 0);
        let result = while_in_use(
            || {
                attempts += 1;
                if attempts == 3 {
                    Ok("bound")
                } else {
                    Err(in_use())
                }
            },
            |_| {
                pauses += 1;
                ControlFlow::Continue(())
            },
        );
        assert_eq!(result.unwrap(), "bound");
        assert_eq!(pauses, 2);
    }

    #[test]
    fn retrying_ends_when_the_caller_gives_up() {
        let mut attempts = 0;
        let result = while_in_use::<()>(
            || {
                attempts += 1;
                Err(in_use())
            },
            |_| ControlFlow::Break(()),
        );
        assert!(matches!(result, Err(Error::AddressInUse { .. })));
        assert_eq!(attempts, 1);
    }

    #[test]
    fn other_errors_are_not_retried() {
        let address = LOCALHOST.into();
        let mut denied = Some(Error::PermissionDenied { address });
        let result = while_in_use::<()>(
            || Err(denied.take().expect("this is the first attempt")),
            |_| unreachable!("only an address in use is retried"),
        );
        assert!(matches!(result, Err(Error::PermissionDenied { .. })));
    }
}
