/* libevent's heap, by `event_add` and `event_del`.
 *
 * A script runs inside a callback of the loop, as a server's handlers do: only
 * there is the loop's time cached, and elsewhere each `event_add` would ask for
 * it.
 */
#include "peer.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

struct queue {
    struct event_base *base;
    struct event turn;
    size_t fired;
    /* Where virtual time begins, in seconds of the loop's time. */
    long start;
    /* What the turn is to do. */
    void (*work)(struct queue *queue, const struct step *step);
    const struct step *steps;
    size_t n;
    struct event timers[];
};

static void fire(evutil_socket_t fd, short what, void *arg)
{
    struct queue *queue = arg;
    (void)fd;
    (void)what;
    queue->fired++;
}

static void turn(evutil_socket_t fd, short what, void *arg)
{
    struct queue *queue = arg;
    (void)fd;
    (void)what;
    for (size_t i = 0; i < queue->n; i++)
        queue->work(queue, &queue->steps[i]);
    /* Or the loop would look again, and expire what is due. */
    event_base_loopbreak(queue->base);
}

static void *create(size_t ids, int due)
{
    struct queue *queue = calloc(1, sizeof *queue + ids * sizeof queue->timers[0]);
    if (!queue)
        abort();
    queue->base = event_base_new();
    if (!queue->base)
        abort();
    queue->start = due ? -(END_MS / 1000) : 0;
    event_assign(&queue->turn, queue->base, -1, 0, turn, queue);
    for (size_t id = 0; id < ids; id++)
        event_assign(&queue->timers[id], queue->base, -1, 0, fire, queue);
    return queue;
}

static void arm_one(struct queue *queue, const struct step *step)
{
    long ms = (long)step->deadline;
    struct timeval delay = { queue->start + ms / 1000, ms % 1000 * 1000 };
    event_add(&queue->timers[step->id], &delay);
}

static void replace_one(struct queue *queue, const struct step *step)
{
    event_del(&queue->timers[step->id]);
    arm_one(queue, step);
}

static void run(struct queue *queue, void (*work)(struct queue *, const struct step *),
                const struct step *steps, size_t n)
{
    queue->work = work;
    queue->steps = steps;
    queue->n = n;
    event_active(&queue->turn, EV_TIMEOUT, 1);
    event_base_loop(queue->base, EVLOOP_NONBLOCK);
}

static void arm(void *arg, const struct step *steps, size_t n)
{
    run(arg, arm_one, steps, n);
}

static void replace(void *arg, const struct step *steps, size_t n)
{
    run(arg, replace_one, steps, n);
}

static size_t expire(void *arg)
{
    struct queue *queue = arg;
    queue->fired = 0;
    event_base_loop(queue->base, EVLOOP_NONBLOCK);
    return queue->fired;
}

static void destroy(void *arg)
{
    struct queue *queue = arg;
    event_base_free(queue->base);
    free(queue);
}

const struct peer libevent_peer = {
    event_get_version, create, arm, replace, expire, destroy, NULL
};
