/* nginx's timers: a red-black tree of deadlines, with one sentinel for all leaves.
 *
 * Written here from the algorithm in T. Cormen et al., "Introduction to
 * Algorithms", and from what nginx documents of its own tree: the key is a time
 * in milliseconds that may wrap, equal keys go to the right, the colour is a
 * byte, and the node is part of an event of 96 bytes. There is no library to
 * link, so the peer is there whenever there is a C compiler.
 *
 * nginx leaves a timer where it is if it moves by less than 300 ms. The peer
 * exists with that rule and without.
 */
#include "peer.h"

#include <stdlib.h>

/* nginx's NGX_TIMER_LAZY_DELAY. */
#define LAZY_DELAY 300

struct node {
    uintptr_t key;
    struct node *left;
    struct node *right;
    struct node *parent;
    unsigned char red;
    unsigned char data;
};

/* As large as nginx's, whose members a timer does not use are named after it. */
struct event {
    void *data;
    unsigned timer_set : 1;
    unsigned timedout : 1;
    void (*handler)(struct event *event);
    uintptr_t index;
    void *log;
    struct node timer;
    void *queue[2];
};

struct queue {
    struct node *root;
    struct node sentinel;
    uintptr_t now;
    size_t fired;
    intptr_t lazy_delay;
    struct event events[];
};

static const char *version(void)
{
    return "written for this benchmark";
}

static void fire(struct event *event)
{
    struct queue *queue = event->data;
    queue->fired++;
}

static void *create_lazy(size_t ids, int due, intptr_t lazy_delay)
{
    struct queue *queue = calloc(1, sizeof *queue + ids * sizeof queue->events[0]);
    if (!queue)
        abort();
    queue->root = &queue->sentinel;
    queue->now = due ? END_MS : 0;
    queue->lazy_delay = lazy_delay;
    for (size_t id = 0; id < ids; id++) {
        queue->events[id].data = queue;
        queue->events[id].handler = fire;
    }
    return queue;
}

static void *create(size_t ids, int due)
{
    return create_lazy(ids, due, 0);
}

static void *create_with_delay(size_t ids, int due)
{
    return create_lazy(ids, due, LAZY_DELAY);
}

static int is_before(uintptr_t key, uintptr_t other)
{
    return (intptr_t)(key - other) < 0;
}

/* Makes `child` what `old` is to its parent. */
static void replace_child(struct queue *queue, struct node *old, struct node *child)
{
    if (old == queue->root)
        queue->root = child;
    else if (old == old->parent->left)
        old->parent->left = child;
    else
        old->parent->right = child;
}

static inline void rotate_left(struct queue *queue, struct node *node)
{
    struct node *rising = node->right;
    node->right = rising->left;
    if (rising->left != &queue->sentinel)
        rising->left->parent = node;
    rising->parent = node->parent;
    replace_child(queue, node, rising);
    rising->left = node;
    node->parent = rising;
}

static inline void rotate_right(struct queue *queue, struct node *node)
{
    struct node *rising = node->left;
    node->left = rising->right;
    if (rising->right != &queue->sentinel)
        rising->right->parent = node;
    rising->parent = node->parent;
    replace_child(queue, node, rising);
    rising->right = node;
    node->parent = rising;
}

/* RB-INSERT-FIXUP. */
static void repair_insert(struct queue *queue, struct node *node)
{
    while (node != queue->root && node->parent->red) {
        struct node *parent = node->parent;
        struct node *above = parent->parent;
        if (parent == above->left) {
            struct node *uncle = above->right;
            if (uncle->red) {
                parent->red = uncle->red = 0;
                above->red = 1;
                node = above;
                continue;
            }
            if (node == parent->right) {
                node = parent;
                rotate_left(queue, node);
            }
            node->parent->red = 0;
            above->red = 1;
            rotate_right(queue, above);
        } else {
            struct node *uncle = above->left;
            if (uncle->red) {
                parent->red = uncle->red = 0;
                above->red = 1;
                node = above;
                continue;
            }
            if (node == parent->left) {
                node = parent;
                rotate_right(queue, node);
            }
            node->parent->red = 0;
            above->red = 1;
            rotate_left(queue, above);
        }
    }
    queue->root->red = 0;
}

static void insert(struct queue *queue, struct node *node)
{
    struct node *leaf = &queue->sentinel;
    struct node **place = &queue->root, *parent = NULL;
    while (*place != leaf) {
        parent = *place;
        place = is_before(node->key, parent->key) ? &parent->left : &parent->right;
    }
    *place = node;
    node->parent = parent;
    node->left = node->right = leaf;
    node->red = 1;
    repair_insert(queue, node);
}

/* RB-DELETE-FIXUP. */
static void repair_delete(struct queue *queue, struct node *node)
{
    while (node != queue->root && !node->red) {
        struct node *parent = node->parent;
        if (node == parent->left) {
            struct node *sibling = parent->right;
            if (sibling->red) {
                sibling->red = 0;
                parent->red = 1;
                rotate_left(queue, parent);
                sibling = parent->right;
            }
            if (!sibling->left->red && !sibling->right->red) {
                sibling->red = 1;
                node = parent;
                continue;
            }
            if (!sibling->right->red) {
                sibling->left->red = 0;
                sibling->red = 1;
                rotate_right(queue, sibling);
                sibling = parent->right;
            }
            sibling->red = parent->red;
            parent->red = sibling->right->red = 0;
            rotate_left(queue, parent);
        } else {
            struct node *sibling = parent->left;
            if (sibling->red) {
                sibling->red = 0;
                parent->red = 1;
                rotate_right(queue, parent);
                sibling = parent->left;
            }
            if (!sibling->left->red && !sibling->right->red) {
                sibling->red = 1;
                node = parent;
                continue;
            }
            if (!sibling->left->red) {
                sibling->right->red = 0;
                sibling->red = 1;
                rotate_left(queue, sibling);
                sibling = parent->left;
            }
            sibling->red = parent->red;
            parent->red = sibling->left->red = 0;
            rotate_right(queue, parent);
        }
        node = queue->root;
    }
    node->red = 0;
}

static struct node *leftmost(struct queue *queue, struct node *node)
{
    while (node->left != &queue->sentinel)
        node = node->left;
    return node;
}

/* Puts `above` where `node` is, with its colour and its children. */
static void take_place(struct queue *queue, struct node *above, struct node *node)
{
    replace_child(queue, node, above);
    above->parent = node->parent;
    above->red = node->red;
    above->left = node->left;
    above->right = node->right;
    if (above->left != &queue->sentinel)
        above->left->parent = above;
    if (above->right != &queue->sentinel)
        above->right->parent = above;
}

static void delete(struct queue *queue, struct node *node)
{
    struct node *leaf = &queue->sentinel;
    struct node *gone = node;
    if (node->left != leaf && node->right != leaf)
        gone = leftmost(queue, node->right);
    struct node *child = gone->left != leaf ? gone->left : gone->right;
    unsigned char was_red = gone->red;
    replace_child(queue, gone, child);
    /* The sentinel's parent too: the repair begins there. */
    child->parent = gone->parent;
    if (gone != node) {
        if (child->parent == node)
            child->parent = gone;
        take_place(queue, gone, node);
    }
    if (!was_red)
        repair_delete(queue, child);
}

static void del_timer(struct queue *queue, struct event *event)
{
    delete(queue, &event->timer);
    event->timer_set = 0;
}

static void add_timer(struct queue *queue, struct event *event, uintptr_t key)
{
    if (event->timer_set) {
        intptr_t moved = (intptr_t)(key - event->timer.key);
        if (llabs((long long)moved) < queue->lazy_delay)
            return;
        del_timer(queue, event);
    }
    event->timer.key = key;
    insert(queue, &event->timer);
    event->timer_set = 1;
}

static void arm(void *arg, const struct step *steps, size_t n)
{
    struct queue *queue = arg;
    for (size_t i = 0; i < n; i++)
        add_timer(queue, &queue->events[steps[i].id], (uintptr_t)steps[i].deadline);
}

static void replace(void *arg, const struct step *steps, size_t n)
{
    struct queue *queue = arg;
    for (size_t i = 0; i < n; i++) {
        struct event *event = &queue->events[steps[i].id];
        del_timer(queue, event);
        add_timer(queue, event, (uintptr_t)steps[i].deadline);
    }
}

/* Removes the first event that is due; NULL if none is. */
static struct event *pop_expired(struct queue *queue)
{
    if (queue->root == &queue->sentinel)
        return NULL;
    struct node *node = leftmost(queue, queue->root);
    if (is_before(queue->now, node->key))
        return NULL;
    struct event *event =
        (struct event *)((char *)node - offsetof(struct event, timer));
    del_timer(queue, event);
    event->timedout = 1;
    return event;
}

static size_t expire(void *arg)
{
    struct queue *queue = arg;
    struct event *event;
    queue->fired = 0;
    while ((event = pop_expired(queue)))
        event->handler(event);
    return queue->fired;
}

static void serve(void *arg, const struct step *steps, size_t n, uint64_t timeout)
{
    struct queue *queue = arg;
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        if (steps[i].deadline != last) {
            struct event *event;
            last = steps[i].deadline;
            queue->now = (uintptr_t)(last - timeout);
            while ((event = pop_expired(queue)))
                add_timer(queue, event, (uintptr_t)last);
        }
        add_timer(queue, &queue->events[steps[i].id], (uintptr_t)steps[i].deadline);
    }
}

const struct peer nginx_rbtree_peer = {
    version, create, arm, replace, expire, free, serve
};

const struct peer nginx_rbtree_lazy_peer = {
    version, create_with_delay, arm, replace, expire, free, serve
};
