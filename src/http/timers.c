#include "http/timers.h"

/* A pairing heap: the root has the least key, every node the list of its children. `prev` of a first child is its
 * parent, of the others the child before. */

static kn_timer *meld(kn_timer *a, kn_timer *b) {
    if (!a || !b)
        return a ? a : b;
    kn_timer *above = b->key_ms < a->key_ms ? b : a, *below = above == a ? b : a;
    below->prev = above;
    below->next = above->child;
    if (above->child)
        above->child->prev = below;
    above->child = below;
    return above;
}

/* What is left when the parent of these goes: they are melded in pairs, then the pairs from the last to the first,
 * which keeps later removals cheap. */
static kn_timer *meld_children(kn_timer *first) {
    kn_timer *pairs = NULL;
    while (first) {
        kn_timer *a = first, *b = a->next;
        first = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b)
            b->next = b->prev = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    kn_timer *root = NULL;
    while (pairs) {
        kn_timer *a = pairs;
        pairs = a->next;
        a->next = NULL;
        root = meld(root, a);
    }
    return root;
}

static void insert(kn_timers *h, kn_timer *t) {
    t->key_ms = t->due_ms;
    t->child = t->next = t->prev = NULL;
    t->in_heap = true;
    h->root = meld(h->root, t);
}

void kn_timers_remove(kn_timers *h, kn_timer *t) {
    if (!t->in_heap)
        return;
    if (t == h->root) {
        h->root = NULL;
    } else {
        if (t->prev->child == t)
            t->prev->child = t->next;
        else
            t->prev->next = t->next;
        if (t->next)
            t->next->prev = t->prev;
    }
    h->root = meld(h->root, meld_children(t->child));
    t->child = t->next = t->prev = NULL;
    t->in_heap = false;
}

void kn_timers_set(kn_timers *h, kn_timer *t, uint64_t due_ms) {
    t->due_ms = due_ms;
    if (t->in_heap && due_ms >= t->key_ms)
        return;
    kn_timers_remove(h, t);
    insert(h, t);
}

kn_timer *kn_timers_take_due(kn_timers *h, uint64_t now_ms) {
    while (h->root && h->root->key_ms <= now_ms) {
        kn_timer *t = h->root;
        kn_timers_remove(h, t);
        if (t->due_ms <= now_ms) {
            t->due_ms = KN_TIMER_NEVER;
            return t;
        }
        if (t->due_ms != KN_TIMER_NEVER)
            insert(h, t);
    }
    return NULL;
}

uint64_t kn_timers_next_ms(const kn_timers *h) {
    return h->root ? h->root->key_ms : KN_TIMER_NEVER;
}
