/*
 * An event module of nginx over evcore-poller: `events { use evcore; }`.
 *
 * A registration's key has the descriptor in its low half and a generation in its high half. So an
 * event of a connection that was closed earlier in the same batch is recognised, even if its
 * descriptor is another's by now.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

/* src/c_interface.rs */
typedef struct evcore_handle evcore_handle_t;
typedef struct evcore_waker evcore_waker_t;
typedef struct { uint64_t key; uint32_t ready; /* epoll's bits */ } evcore_report_t;

evcore_handle_t *evcore_open(size_t capacity);
void evcore_close(evcore_handle_t *);
int evcore_add(evcore_handle_t *, int fd, uint64_t key, uint8_t interest, int mode);
int evcore_modify(evcore_handle_t *, uint64_t key, uint8_t interest);
int evcore_remove(evcore_handle_t *, uint64_t key);
int evcore_remove_before_close(evcore_handle_t *, uint64_t key);
int evcore_wait(evcore_handle_t *, int64_t timeout_ms);
evcore_report_t evcore_report(const evcore_handle_t *, size_t position);
evcore_waker_t *evcore_waker(const evcore_handle_t *);
void evcore_wake(const evcore_waker_t *);

enum { LEVEL, EDGE, EXCLUSIVE };
enum { READ = EPOLLIN, WRITE = EPOLLOUT };
#define WAKE_KEY UINT64_MAX

#define EVENTS_MAX 256 /* evcore's Budgets::batch */

typedef struct { ngx_connection_t *connection /* NULL: none */; uint32_t generation; } slot_t;

static evcore_handle_t *handle;
static evcore_waker_t *waker;
static slot_t *slots; /* by descriptor */
static ngx_uint_t slot_count;
static ngx_event_t notify_event;
static ngx_event_handler_pt notify_handler;
static ngx_event_module_t ngx_evcore_module_ctx;

#define COLD __attribute__((cold, noinline))

COLD static ngx_int_t failed(ngx_connection_t *c, int rc, const char *call) {
    ngx_log_error(NGX_LOG_ALERT, c->log, -rc, "evcore: %s of %d failed", call, c->fd);
    return NGX_ERROR;
}

static ngx_int_t check(ngx_connection_t *c, int rc, const char *call) {
    return rc == 0 ? NGX_OK : failed(c, rc, call);
}

static uint64_t key_of(ngx_connection_t *c) {
    return (uint64_t) slots[c->fd].generation << 32 | (uint32_t) c->fd;
}

/* The connection that is registered under a key, or NULL. */
static ngx_connection_t *find(uint64_t key) {
    slot_t *slot = &slots[(uint32_t) key];
    return slot->generation == key >> 32 ? slot->connection : NULL;
}

static ngx_int_t add(ngx_connection_t *c, uint8_t interest, int mode);

COLD static ngx_int_t grow_and_add(ngx_connection_t *c, uint8_t interest, int mode) {
    ngx_uint_t count = ngx_max(2 * slot_count, (ngx_uint_t) c->fd + 64);
    slot_t *grown = realloc(slots, count * sizeof(slot_t));
    if (grown == NULL) {
        return failed(c, -NGX_ENOMEM, "add");
    }
    ngx_memzero(grown + slot_count, (count - slot_count) * sizeof(slot_t));
    slots = grown;
    slot_count = count;
    return add(c, interest, mode);
}

static ngx_int_t add(ngx_connection_t *c, uint8_t interest, int mode) {
    if ((ngx_uint_t) c->fd >= slot_count) {
        return grow_and_add(c, interest, mode);
    }
    slots[c->fd].generation++;
    slots[c->fd].connection = c;
    int rc = evcore_add(handle, c->fd, key_of(c), interest, mode);
    if (rc != 0) {
        slots[c->fd].connection = NULL;
    }
    return check(c, rc, "add");
}

static ngx_int_t modify(ngx_connection_t *c, uint8_t interest) {
    return check(c, evcore_modify(handle, key_of(c), interest), "modify");
}

static ngx_int_t delete(ngx_connection_t *c, ngx_uint_t flags) {
    /* nginx also deletes what it has not added. */
    if ((ngx_uint_t) c->fd >= slot_count || slots[c->fd].connection != c) {
        return NGX_OK;
    }
    slots[c->fd].connection = NULL;
    int closes = flags & NGX_CLOSE_EVENT;
    return check(c, (closes ? evcore_remove_before_close : evcore_remove)(handle, key_of(c)), "remove");
}

static ngx_event_t *other_side(ngx_event_t *ev) {
    ngx_connection_t *c = ev->data;
    return ev->write ? c->read : c->write;
}

static ngx_int_t add_event(ngx_event_t *ev, ngx_int_t event, ngx_uint_t flags) {
    ngx_int_t rc;
    if (other_side(ev)->active) {
        rc = modify(ev->data, READ | WRITE);
    } else {
        int mode = flags & NGX_EXCLUSIVE_EVENT ? EXCLUSIVE : flags & NGX_CLEAR_EVENT ? EDGE : LEVEL;
        rc = add(ev->data, ev->write ? WRITE : READ, mode);
    }
    ev->active = rc == NGX_OK;
    return rc;
}

static ngx_int_t delete_event(ngx_event_t *ev, ngx_int_t event, ngx_uint_t flags) {
    ev->active = 0;
    if (!other_side(ev)->active) {
        return delete(ev->data, flags);
    }
    if (flags & NGX_CLOSE_EVENT) {
        return NGX_OK; /* until the other side is deleted too */
    }
    return modify(ev->data, ev->write ? READ : WRITE);
}

static ngx_int_t add_connection(ngx_connection_t *c) {
    ngx_int_t rc = add(c, READ | WRITE, EDGE);
    c->read->active = c->write->active = rc == NGX_OK;
    return rc;
}

static ngx_int_t delete_connection(ngx_connection_t *c, ngx_uint_t flags) {
    c->read->active = c->write->active = 0;
    return delete(c, flags);
}

static ngx_int_t notify(ngx_event_handler_pt handler) {
    notify_handler = handler;
    evcore_wake(waker);
    return NGX_OK;
}

static void handle_or_post(ngx_event_t *ev, ngx_uint_t flags) {
    ev->ready = 1;
    if (!(flags & NGX_POST_EVENTS)) {
        ev->handler(ev);
    } else if (ev->accept) {
        ngx_post_event(ev, &ngx_posted_accept_events);
    } else {
        ngx_post_event(ev, &ngx_posted_events);
    }
}

static void deliver(evcore_report_t report, ngx_uint_t flags) {
    if (report.key == WAKE_KEY) {
        notify_handler(&notify_event);
        return;
    }
    ngx_connection_t *c = find(report.key);
    if (c == NULL) {
        return;
    }
    ngx_event_t *ev = c->read;
    if (report.ready & EPOLLIN && ev->active) {
        if (report.ready & EPOLLRDHUP) {
            ev->pending_eof = 1;
        }
        ev->available = -1; /* not known */
        handle_or_post(ev, flags);
    }
    ev = c->write;
    /* The handler may have closed the connection. */
    if (report.ready & EPOLLOUT && ev->active && find(report.key) == c) {
#if (NGX_THREADS)
        ev->complete = 1;
#endif
        handle_or_post(ev, flags);
    }
}

static ngx_int_t process_events(ngx_cycle_t *cycle, ngx_msec_t timer, ngx_uint_t flags) {
    int count = evcore_wait(handle, (int64_t) timer /* NGX_TIMER_INFINITE is -1 */);
    if (flags & NGX_UPDATE_TIME || ngx_event_timer_alarm) {
        ngx_time_update();
    }
    if (count < 0) {
        if (count == -NGX_EINTR && ngx_event_timer_alarm) {
            ngx_event_timer_alarm = 0;
            return NGX_OK;
        }
        ngx_uint_t level = count == -NGX_EINTR ? NGX_LOG_INFO : NGX_LOG_ALERT;
        ngx_log_error(level, cycle->log, -count, "evcore: the wait failed");
        return NGX_ERROR;
    }
    for (int i = 0; i < count; i++) {
        deliver(evcore_report(handle, i), flags);
    }
    return NGX_OK;
}

static ngx_int_t init(ngx_cycle_t *cycle, ngx_msec_t timer) {
    if (handle == NULL) { /* a reload without a master process keeps it */
        handle = evcore_open(EVENTS_MAX);
        if (handle == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, 0, "evcore: no poller could be opened");
            return NGX_ERROR;
        }
        waker = evcore_waker(handle);
    }
    notify_event.log = cycle->log;
    ngx_io = ngx_os_io;
    ngx_event_actions = ngx_evcore_module_ctx.actions;
    ngx_event_flags = NGX_USE_CLEAR_EVENT | NGX_USE_GREEDY_EVENT | NGX_USE_EPOLL_EVENT;
    ngx_use_epoll_rdhup = 1;
    return NGX_OK;
}

static void done(ngx_cycle_t *cycle) {
    evcore_close(handle);
    handle = NULL;
    ngx_free(slots);
    slots = NULL;
    slot_count = 0;
}

static ngx_str_t name = ngx_string("evcore");

static ngx_event_module_t ngx_evcore_module_ctx = {
    &name, NULL, NULL, /* no configuration */
    /* `enable` and `disable` are `add` and `delete`. */
    { add_event, delete_event, add_event, delete_event, add_connection, delete_connection, notify,
      process_events, init, done }
};

ngx_module_t ngx_evcore_module = {
    NGX_MODULE_V1,
    &ngx_evcore_module_ctx, NULL, NGX_EVENT_MODULE,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NGX_MODULE_V1_PADDING
};
