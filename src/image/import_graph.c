#include "image/import_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

/* ---- building ---- */

bool kn_graph_add_node(kn_graph *g, kn_json_text outer, kn_json_text id, kn_json_text type, kn_error *err) {
    enum { ID_BYTES = 512 };
    if (g->node_count == KN_GRAPH_NODES_MAX)
        return kn_fail(err, KN_E_RANGE, "the workflow has more than %d nodes", KN_GRAPH_NODES_MAX);
    if (outer.len + id.len > ID_BYTES)
        return kn_fail(err, KN_E_RANGE, "the workflow has a node whose id is longer than %d bytes", ID_BYTES);
    kn_graph_node *nodes = kn_array_grow(g->nodes, g->node_count, &g->node_room, sizeof *nodes, err);
    if (!nodes)
        return false;
    g->nodes = nodes;
    char *name = malloc(outer.len + id.len + 2);
    if (!name)
        return kn_fail_nomem(err, outer.len + id.len + 2);
    snprintf(name, outer.len + id.len + 2, "%.*s%s%.*s", (int)outer.len, outer.data, outer.len ? ":" : "", (int)id.len,
             id.data);
    nodes[g->node_count++] = (kn_graph_node){ .id = name, .type = type, .first = (uint32_t)g->input_count };
    return true;
}

bool kn_graph_add_input(kn_graph *g, const kn_graph_input *input, kn_error *err) {
    if (g->input_count == KN_GRAPH_INPUTS_MAX)
        return kn_fail(err, KN_E_RANGE, "the workflow's nodes have more than %d inputs", KN_GRAPH_INPUTS_MAX);
    kn_graph_input *inputs = kn_array_grow(g->inputs, g->input_count, &g->input_room, sizeof *inputs, err);
    if (!inputs)
        return false;
    g->inputs = inputs;
    inputs[g->input_count++] = *input;
    g->nodes[g->node_count - 1].count++;
    return true;
}

void kn_graph_free(kn_graph *g) {
    for (size_t i = 0; i < g->node_count; i++)
        free(g->nodes[i].id);
    free(g->nodes);
    free(g->inputs);
    kn_json_tree_free(&g->tree);
    *g = (kn_graph){ 0 };
}

const kn_graph_input *kn_graph_find(const kn_graph *g, uint32_t node, const char *input) {
    const kn_graph_node *n = &g->nodes[node];
    for (uint32_t i = 0; i < n->count; i++)
        if (kn_json_is(g->inputs[n->first + i].name, input))
            return &g->inputs[n->first + i];
    return NULL;
}

/* ---- what was executed ---- */

/* A list of a text and a whole number is a link, any other value a literal. */
static bool is_link(const kn_json_value *v, kn_json_text *ret_id, uint32_t *ret_slot) {
    uint64_t slot = 0;
    if (v->kind != KN_JSON_ARRAY || v->count != 2 || !kn_json_value_text(v->first, ret_id) ||
        !kn_json_value_u64(v->first->next, &slot))
        return false;
    *ret_slot = (uint32_t)KN_MIN(slot, UINT32_MAX);
    return true;
}

static bool add_inputs(kn_graph *g, const kn_json_value *inputs, const kn_graph_names *names, kn_error *err) {
    for (const kn_json_value *v = inputs && inputs->kind == KN_JSON_OBJECT ? inputs->first : NULL; v; v = v->next) {
        kn_graph_input input = { .name = v->key, .literal = v };
        kn_json_text id;
        if (is_link(v, &id, &input.slot)) {
            const kn_graph_name *from = kn_graph_names_find(names, id);
            input.literal = NULL;
            input.from = from ? from->number : KN_GRAPH_NOWHERE;
        }
        if (!kn_graph_add_input(g, &input, err))
            return false;
    }
    return true;
}

static bool add_nodes(kn_graph *g, const kn_json_value *root, kn_graph_names *names, kn_error *err) {
    static const kn_json_text no_outer = { "", 0 };
    for (const kn_json_value *v = root->first; v; v = v->next)
        if (!kn_graph_names_add(names, v->key, v, err))
            return false;
    kn_graph_names_sort(names);
    for (const kn_json_value *v = root->first; v; v = v->next) {
        kn_json_text type;
        if (!kn_json_value_text(kn_json_member(v, "class_type"), &type))
            return kn_fail(err, KN_E_FORMAT, "the workflow's node %s has no class_type",
                           kn_quote(v->key.data, v->key.len).text);
        if (!kn_graph_add_node(g, no_outer, v->key, type, err) ||
            !add_inputs(g, kn_json_member(v, "inputs"), names, err))
            return false;
    }
    return true;
}

bool kn_graph_read_executed(kn_json_text text, kn_graph *ret, kn_error *err) {
    kn_graph g = { 0 };
    kn_graph_names names = { 0 };
    bool ok =
        kn_json_tree_read(text, "the workflow", KN_GRAPH_VALUES_MAX, &g.tree, err) &&
        (g.tree.root->kind == KN_JSON_OBJECT || kn_fail(err, KN_E_FORMAT, "the workflow is no object of nodes")) &&
        add_nodes(&g, g.tree.root, &names, err);
    free(names.at);
    if (ok)
        *ret = g;
    else
        kn_graph_free(&g);
    return ok;
}

/* ---- names ---- */

bool kn_graph_names_add(kn_graph_names *n, kn_json_text id, const kn_json_value *value, kn_error *err) {
    kn_graph_name *at = kn_array_grow(n->at, n->count, &n->room, sizeof *at, err);
    if (!at)
        return false;
    n->at = at;
    at[n->count] = (kn_graph_name){ id, (uint32_t)n->count, value };
    n->count++;
    return true;
}

static int compare_ids(kn_json_text a, kn_json_text b) {
    return a.len != b.len ? (a.len > b.len ? 1 : -1) : memcmp(a.data, b.data, a.len);
}

static int compare_names(const void *a, const void *b) {
    const kn_graph_name *x = a, *y = b;
    int by_id = compare_ids(x->id, y->id);
    return by_id ? by_id : (x->number > y->number) - (x->number < y->number);
}

void kn_graph_names_sort(kn_graph_names *n) {
    if (n->count)
        qsort(n->at, n->count, sizeof *n->at, compare_names);
}

const kn_graph_name *kn_graph_names_find(const kn_graph_names *n, kn_json_text id) {
    size_t low = 0, high = n->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_ids(n->at[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->count && compare_ids(n->at[low].id, id) == 0 ? &n->at[low] : NULL;
}
