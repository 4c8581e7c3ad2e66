/* libev's heap, by `ev_timer_again` and by `ev_timer_start` and `ev_timer_stop`.
 *
 * The loop's time stands still while a script runs, as it does between two
 * turns, so a delay is a deadline.
 */
#include "peer.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>

struct queue {
    struct ev_loop *loop;
    size_t fired;
    /* Where virtual time begins, in seconds of the loop's time. */
    ev_tstamp start;
    ev_timer timers[];
};

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%d.%d", ev_version_major(), ev_version_minor());
    return text;
}

static ev_tstamp delay(const struct queue *queue, const struct step *step)
{
    return queue->start + (double)step->deadline / 1000.0;
}

static void fire(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct queue *queue = ev_userdata(loop);
    (void)timer;
    (void)events;
    queue->fired++;
}

static void *create(size_t ids, int due)
{
    struct queue *queue = calloc(1, sizeof *queue + ids * sizeof queue->timers[0]);
    if (!queue)
        abort();
    queue->loop = ev_loop_new(EVFLAG_AUTO);
    if (!queue->loop)
        abort();
    queue->start = due ? -(END_MS / 1000.0) : 0.;
    ev_set_userdata(queue->loop, queue);
    for (size_t id = 0; id < ids; id++)
        ev_timer_init(&queue->timers[id], fire, 0., 0.);
    return queue;
}

static void start(struct queue *queue, const struct step *step)
{
    ev_timer *timer = &queue->timers[step->id];
    ev_timer_set(timer, delay(queue, step), 0.);
    ev_timer_start(queue->loop, timer);
}

static void arm(void *arg, const struct step *steps, size_t n)
{
    struct queue *queue = arg;
    for (size_t i = 0; i < n; i++) {
        ev_timer *timer = &queue->timers[steps[i].id];
        if (ev_is_active(timer)) {
            timer->repeat = delay(queue, &steps[i]);
            ev_timer_again(queue->loop, timer);
            timer->repeat = 0.;
        } else {
            start(queue, &steps[i]);
        }
    }
}

static void replace(void *arg, const struct step *steps, size_t n)
{
    struct queue *queue = arg;
    for (size_t i = 0; i < n; i++) {
        ev_timer_stop(queue->loop, &queue->timers[steps[i].id]);
        start(queue, &steps[i]);
    }
}

static size_t expire(void *arg)
{
    struct queue *queue = arg;
    queue->fired = 0;
    ev_run(queue->loop, EVRUN_NOWAIT);
    return queue->fired;
}

static void destroy(void *arg)
{
    struct queue *queue = arg;
    ev_loop_destroy(queue->loop);
    free(queue);
}

const struct peer libev_peer = { version, create, arm, replace, expire, destroy, NULL };
