/* ComfyUI's graphs: what it executed (`prompt`) and what its editor shows (`workflow`), both read into the same form:
 * nodes with inputs, each a literal or a link to another node's output. Nothing here knows what the nodes do.
 * Internal to the import (import.h). */
#ifndef KN_IMAGE_IMPORT_GRAPH_H
#define KN_IMAGE_IMPORT_GRAPH_H

#include "base/json_tree.h"

enum {
    KN_GRAPH_NODES_MAX = 2000,
    KN_GRAPH_INPUTS_MAX = 100 * 1000,
    KN_GRAPH_VALUES_MAX = 1 << 19, /* of the JSON text, 30 MB */
    KN_GRAPH_NESTING_MAX = 8,      /* of subgraphs */
};
#define KN_GRAPH_NOWHERE UINT32_MAX

/* Under this name an editor's graph tells what becomes of a seed after each picture. */
#define KN_GRAPH_CONTROL "control"

typedef struct kn_graph_input {
    kn_json_text name;
    const kn_json_value *literal; /* NULL: a link */
    uint32_t from, slot;          /* of a link: the node, or KN_GRAPH_NOWHERE, and which of its outputs */
} kn_graph_input;

typedef struct kn_graph_node {
    char *id;
    kn_json_text type;
    uint32_t first, count; /* of its inputs */
} kn_graph_node;

typedef struct kn_graph {
    kn_graph_node *nodes;
    size_t node_count, node_room;
    kn_graph_input *inputs;
    size_t input_count, input_room;
    kn_json_tree tree; /* what texts and literals point into */
} kn_graph;

/* What can be named: the first of that name is found. */
typedef struct kn_graph_name {
    kn_json_text id;
    uint32_t number;
    const kn_json_value *value;
} kn_graph_name;

typedef struct kn_graph_names {
    kn_graph_name *at;
    size_t count, room;
} kn_graph_names;

bool kn_graph_names_add(kn_graph_names *n, kn_json_text id, const kn_json_value *value, kn_error *err);
void kn_graph_names_sort(kn_graph_names *n); /* after the last one, before the first is looked for */
const kn_graph_name *kn_graph_names_find(const kn_graph_names *n, kn_json_text id); /* NULL: there is none */

/* The text must stay as long as the graph. */
bool kn_graph_read_executed(kn_json_text text, kn_graph *ret, kn_error *err);
bool kn_graph_read_edited(kn_json_text text, kn_graph *ret, kn_error *err);
void kn_graph_free(kn_graph *g);

/* NULL: the node has no such input. */
const kn_graph_input *kn_graph_find(const kn_graph *g, uint32_t node, const char *input);

/* For the two readers. The inputs of a node are added after it, before the next one. */
bool kn_graph_add_node(kn_graph *g, kn_json_text outer, kn_json_text id, kn_json_text type, kn_error *err);
bool kn_graph_add_input(kn_graph *g, const kn_graph_input *input, kn_error *err);

#endif
