/* nginx's timers: a red-black tree of deadlines, with one sentinel for all leaves.
 *
 * Written here from the algorithm in T. Cormen et al., "Introduction to Algorithms", and from what
 * nginx documents of its own tree: the key is a time in milliseconds that may wrap, equal keys go
 * to the right, the colour is a byte, and the node is part of an event of 96 bytes. No library is
 * linked, so a C compiler is enough for this peer.
 *
 * nginx leaves a timer where it is if it moves by less than 300 ms. There are two peers, with that
 * rule and without.
 */
#include "peer.h"

/* nginx's NGX_TIMER_LAZY_DELAY. */
#define LAZY_DELAY 300

/* The two sides of a node. Each operation on one side has a mirror image on the other. The
 * functions that take a side are compiled once for each side. */
enum side { LEFT, RIGHT };
#define FOR_EACH_SIDE static inline __attribute__((always_inline))

struct node {
    uintptr_t key;
    struct node *child[2];
    struct node *parent;
    unsigned char red;
    unsigned char data;
};

/* An event has the size of nginx's. The members that a timer does not use have nginx's names. */
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

struct self {
    struct node *root;
    struct node sentinel;
    uintptr_t now;
    size_t fired;
    intptr_t lazy_delay;
    struct event events[];
};

static void fire(struct event *event) {
    struct self *self = event->data;
    self->fired++;
}

static struct self *create(const int *watched, size_t n, size_t ids, int due, long lazy_delay) {
    struct self *self = zeroed(1, sizeof *self + ids * sizeof self->events[0]);
    self->root = &self->sentinel;
    self->now = due ? END_MS : 0;
    self->lazy_delay = lazy_delay;
    for (size_t id = 0; id < ids; id++) {
        self->events[id].data = self;
        self->events[id].handler = fire;
        self->events[id].index = id;
    }
    return self;
}

static void destroy(struct self *self) {
    free(self);
}

static int is_before(uintptr_t key, uintptr_t other) {
    return (intptr_t)(key - other) < 0;
}

/* Puts `child` in the place of `old`, as a child of the parent of `old`. */
static void replace_child(struct self *self, struct node *old, struct node *child) {
    if (old == self->root)
        self->root = child;
    else
        old->parent->child[old == old->parent->child[RIGHT]] = child;
}

/* Rotates: the child on the other side rises, and the node sinks to `side`. */
FOR_EACH_SIDE void rotate(struct self *self, struct node *node, enum side side) {
    struct node *rising = node->child[!side];
    node->child[!side] = rising->child[side];
    if (rising->child[side] != &self->sentinel)
        rising->child[side]->parent = node;
    rising->parent = node->parent;
    replace_child(self, node, rising);
    rising->child[side] = node;
    node->parent = rising;
}

/* A step of RB-INSERT-FIXUP, for a parent on this side; returns the node of the next step. */
FOR_EACH_SIDE struct node *repair_insert_on(struct self *self, struct node *node, enum side side) {
    struct node *above = node->parent->parent;
    struct node *uncle = above->child[!side];
    if (uncle->red) {
        node->parent->red = uncle->red = 0;
        above->red = 1;
        return above;
    }
    if (node == node->parent->child[!side]) {
        node = node->parent;
        rotate(self, node, side);
    }
    node->parent->red = 0;
    above->red = 1;
    rotate(self, above, !side);
    return node;
}

static void insert(struct self *self, struct node *node) {
    struct node *leaf = &self->sentinel;
    struct node **place = &self->root, *parent = NULL;
    while (*place != leaf) {
        parent = *place;
        place = &parent->child[is_before(node->key, parent->key) ? LEFT : RIGHT];
    }
    *place = node;
    node->parent = parent;
    node->child[LEFT] = node->child[RIGHT] = leaf;
    node->red = 1;
    while (node != self->root && node->parent->red) {
        if (node->parent == node->parent->parent->child[LEFT])
            node = repair_insert_on(self, node, LEFT);
        else
            node = repair_insert_on(self, node, RIGHT);
    }
    self->root->red = 0;
}

/* A step of RB-DELETE-FIXUP, for a node on this side; returns the node of the next step. */
FOR_EACH_SIDE struct node *repair_delete_on(struct self *self, struct node *node, enum side side) {
    struct node *parent = node->parent;
    struct node *sibling = parent->child[!side];
    if (sibling->red) {
        sibling->red = 0;
        parent->red = 1;
        rotate(self, parent, side);
        sibling = parent->child[!side];
    }
    if (!sibling->child[LEFT]->red && !sibling->child[RIGHT]->red) {
        sibling->red = 1;
        return parent;
    }
    if (!sibling->child[!side]->red) {
        sibling->child[side]->red = 0;
        sibling->red = 1;
        rotate(self, sibling, !side);
        sibling = parent->child[!side];
    }
    sibling->red = parent->red;
    parent->red = sibling->child[!side]->red = 0;
    rotate(self, parent, side);
    return self->root;
}

static void repair_delete(struct self *self, struct node *node) {
    while (node != self->root && !node->red) {
        if (node == node->parent->child[LEFT])
            node = repair_delete_on(self, node, LEFT);
        else
            node = repair_delete_on(self, node, RIGHT);
    }
    node->red = 0;
}

static struct node *leftmost(struct self *self, struct node *node) {
    while (node->child[LEFT] != &self->sentinel)
        node = node->child[LEFT];
    return node;
}

/* Puts `above` in the place of `node`, with the colour and the children of `node`. */
static void take_place(struct self *self, struct node *above, struct node *node) {
    replace_child(self, node, above);
    above->parent = node->parent;
    above->red = node->red;
    for (enum side side = LEFT; side <= RIGHT; side++) {
        above->child[side] = node->child[side];
        if (above->child[side] != &self->sentinel)
            above->child[side]->parent = above;
    }
}

static void delete(struct self *self, struct node *node) {
    struct node *leaf = &self->sentinel;
    struct node *gone = node;
    if (node->child[LEFT] != leaf && node->child[RIGHT] != leaf)
        gone = leftmost(self, node->child[RIGHT]);
    struct node *child = gone->child[gone->child[LEFT] != leaf ? LEFT : RIGHT];
    unsigned char was_red = gone->red;
    replace_child(self, gone, child);
    /* Sets even the sentinel's parent, because the repair begins there. */
    child->parent = gone->parent;
    if (gone != node) {
        if (child->parent == node)
            child->parent = gone;
        take_place(self, gone, node);
    }
    if (!was_red)
        repair_delete(self, child);
}

static inline void disarm_one(struct self *self, size_t id) {
    delete(self, &self->events[id].timer);
    self->events[id].timer_set = 0;
}

static inline void arm_one(struct self *self, size_t id, uint64_t deadline) {
    struct event *event = &self->events[id];
    if (event->timer_set) {
        intptr_t moved = (intptr_t)(deadline - event->timer.key);
        if (llabs((long long)moved) < self->lazy_delay)
            return;
        disarm_one(self, id);
    }
    event->timer.key = (uintptr_t)deadline;
    insert(self, &event->timer);
    event->timer_set = 1;
}

/* The first node, if it is due; else NULL. */
static inline struct node *first_due(struct self *self) {
    if (self->root == &self->sentinel)
        return NULL;
    struct node *node = leftmost(self, self->root);
    return is_before(self->now, node->key) ? NULL : node;
}

/* Removes the first event, which is due. */
static inline struct event *pop(struct self *self, struct node *node) {
    struct event *event = (struct event *)((char *)node - offsetof(struct event, timer));
    disarm_one(self, event->index);
    event->timedout = 1;
    return event;
}

static size_t expire(struct self *self) {
    struct node *node;
    self->fired = 0;
    while ((node = first_due(self))) {
        struct event *event = pop(self, node);
        event->handler(event);
    }
    return self->fired;
}

/* Out of line, so that a turn in which nothing is due saves no registers, as in nginx. */
__attribute__((noinline))
static void rearm(struct self *self, struct node *node, uint64_t deadline) {
    arm_one(self, pop(self, node)->index, deadline);
}

/* As in nginx, this function and the next are not inlined. */
__attribute__((noinline))
static void rearm_due(struct self *self, uint64_t now, uint64_t deadline) {
    struct node *node;
    self->now = (uintptr_t)now;
    while ((node = first_due(self)))
        rearm(self, node, deadline);
}

/* The milliseconds to the first deadline; -1 if nothing is armed. */
__attribute__((noinline))
static intptr_t find_timer(struct self *self) {
    if (self->root == &self->sentinel)
        return -1;
    intptr_t left = (intptr_t)(leftmost(self, self->root)->key - self->now);
    return left > 0 ? left : 0;
}

static void turns(struct self *self, const struct step *steps, size_t n, int closes) {
    for (size_t i = 0; i < n; i++) {
        arm_one(self, steps[i].id, steps[i].deadline);
        if (closes)
            disarm_one(self, steps[i].id);
        intptr_t left = find_timer(self);
        __asm__ volatile("" : : "r"(left) : "memory"); /* uses the result */
        rearm_due(self, steps[i].deadline - TIMEOUT_MS, steps[i].deadline);
    }
}

const struct peer nginx_rbtree = { create, destroy, arm, expire, NULL, NULL, rearm_due, 0, turns };

const struct peer nginx_rbtree_lazy = {
    create, destroy, arm, expire, NULL, NULL, rearm_due, LAZY_DELAY, turns
};
