/* The editor's graph, where only that is in the picture: what the editor does before it lets a graph be executed, from
 * its file. Muted and bypassed nodes go, subgraphs are unfolded, widgets become inputs. */
#include "image/import_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

enum {
    WORK_MAX = 8 << 20,               /* members and list items that are looked at, in all: far beyond any real graph */
    WAY_MAX = 2 * KN_GRAPH_NODES_MAX, /* of a link: without a cycle it meets each node and each border once */
};

enum { NORMAL = 0, MUTED = 2, BYPASSED = 4 };

struct edge {
    kn_json_text id, from, to;
    uint64_t from_slot, to_slot;
};

/* The graph itself is number 0, subgraphs follow. */
struct definition {
    kn_graph_names nodes, links; /* by their ids */
    struct edge *edges;          /* by the numbers of links */
    size_t edge_room;
};

/* One use of a definition. */
struct scope {
    const struct definition *of;
    uint32_t outer; /* scope of the node that stands for it */
    const kn_json_value *instance;
    char *prefix;     /* of its nodes' ids; NULL: none */
    uint32_t *placed; /* by the definition's nodes: number of a node or, for a subgraph, of a scope */
};

/* A node that stays. */
struct place {
    uint32_t scope;
    const kn_json_value *node;
};

struct editor {
    kn_graph graph;
    struct definition *definitions;
    size_t definition_count, definition_room;
    kn_graph_names subgraphs; /* definitions by their ids; entry n is definition n + 1 */
    struct scope *scopes;
    size_t scope_count, scope_room;
    struct place *places; /* as the graph's nodes will be */
    size_t place_count, place_room;
    size_t seen; /* nodes, in all scopes */
    size_t work_left;
    kn_error *err;
};

/* Where an input comes from. */
struct source {
    enum { FROM_NODE, FROM_WIDGET, UNSET, LOST } kind; /* unset: its own widget counts; lost: it has no value */
    uint32_t node, slot;
    const kn_json_value *widget;
};

static const kn_json_text no_text = { "", 0 };

static kn_json_text id_of(const kn_json_value *v) {
    return v && (v->kind == KN_JSON_NUMBER || v->kind == KN_JSON_STRING) ? v->text : no_text;
}

static kn_json_text type_of(const kn_json_value *node) {
    kn_json_text type = no_text;
    kn_json_value_text(kn_json_member(node, "type"), &type);
    return type;
}

static bool refuse_links(struct editor *e) {
    return kn_fail(e->err, KN_E_RANGE, "the workflow's links are too many, or go in a cycle");
}

static bool spend(struct editor *e, size_t work) {
    if (work > e->work_left)
        return refuse_links(e);
    e->work_left -= work;
    return true;
}

/* A list of numbers or, within subgraphs, an object. */
static bool read_edge(const kn_json_value *v, struct edge *ret) {
    enum { ID, FROM, FROM_SLOT, TO, TO_SLOT, PARTS };
    static const char *const names[PARTS] = { "id", "origin_id", "origin_slot", "target_id", "target_slot" };
    const kn_json_value *parts[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        parts[i] = v->kind == KN_JSON_ARRAY ? kn_json_at(v, i) : kn_json_member(v, names[i]);
    *ret = (struct edge){ .id = id_of(parts[ID]), .from = id_of(parts[FROM]), .to = id_of(parts[TO]) };
    return ret->id.len && ret->from.len && ret->to.len && kn_json_value_u64(parts[FROM_SLOT], &ret->from_slot) &&
           kn_json_value_u64(parts[TO_SLOT], &ret->to_slot);
}

/* ---- what there is ---- */

static bool add_definition(struct editor *e, const kn_json_value *value) {
    struct definition *d = kn_array_grow(e->definitions, e->definition_count, &e->definition_room, sizeof *d, e->err);
    if (!d)
        return false;
    e->definitions = d;
    d += e->definition_count++;
    *d = (struct definition){ .edges = NULL };
    const kn_json_value *nodes = kn_json_member(value, "nodes"), *links = kn_json_member(value, "links");
    if (!nodes || nodes->kind != KN_JSON_ARRAY)
        return kn_fail(e->err, KN_E_FORMAT, "the workflow has no list of nodes");
    for (const kn_json_value *v = nodes->first; v; v = v->next)
        if (!kn_graph_names_add(&d->nodes, id_of(kn_json_member(v, "id")), v, e->err))
            return false;
    for (const kn_json_value *v = links ? links->first : NULL; v; v = v->next) {
        size_t n = d->links.count;
        struct edge *edges = kn_array_grow(d->edges, n, &d->edge_room, sizeof *edges, e->err);
        if (!edges)
            return false;
        d->edges = edges;
        if (!read_edge(v, &edges[n]))
            return kn_fail(e->err, KN_E_FORMAT, "the workflow has a link that is none");
        if (!kn_graph_names_add(&d->links, edges[n].id, v, e->err))
            return false;
    }
    kn_graph_names_sort(&d->nodes);
    kn_graph_names_sort(&d->links);
    return true;
}

static bool add_definitions(struct editor *e, const kn_json_value *root) {
    const kn_json_value *list = kn_json_member(kn_json_member(root, "definitions"), "subgraphs");
    if (!add_definition(e, root))
        return false;
    for (const kn_json_value *v = list && list->kind == KN_JSON_ARRAY ? list->first : NULL; v; v = v->next)
        if (!add_definition(e, v) || !kn_graph_names_add(&e->subgraphs, id_of(kn_json_member(v, "id")), v, e->err))
            return false;
    kn_graph_names_sort(&e->subgraphs);
    return true;
}

static const struct definition *find_subgraph(const struct editor *e, const kn_json_value *node) {
    const kn_graph_name *found = kn_graph_names_find(&e->subgraphs, type_of(node));
    return found ? &e->definitions[found->number + 1] : NULL;
}

static bool read_mode(struct editor *e, const kn_json_value *node, uint64_t *ret) {
    const kn_json_value *mode = kn_json_member(node, "mode");
    *ret = NORMAL;
    if (!mode || (kn_json_value_u64(mode, ret) && (*ret == NORMAL || *ret == MUTED || *ret == BYPASSED)))
        return true;
    kn_json_text type = type_of(node);
    return kn_fail(e->err, KN_E_UNSUPPORTED, "the mode of a node %s is not supported",
                   kn_quote(type.data, type.len).text);
}

/* ---- unfolding ---- */

static char *inner_prefix(struct editor *e, const struct scope *outer, kn_json_text id) {
    size_t room = (outer->prefix ? strlen(outer->prefix) : 0) + id.len + 2;
    char *text = malloc(room);
    if (text)
        snprintf(text, room, "%s%s%.*s", outer->prefix ? outer->prefix : "", outer->prefix ? ":" : "", (int)id.len,
                 id.data);
    else
        kn_fail_nomem(e->err, room);
    return text;
}

static bool place_nodes(struct editor *e, uint32_t number, unsigned depth);

static bool add_scope(struct editor *e, const struct definition *of, uint32_t outer, const kn_json_value *instance,
                      unsigned depth) {
    if (depth > KN_GRAPH_NESTING_MAX)
        return kn_fail(e->err, KN_E_RANGE, "the workflow's subgraphs are nested more than %d deep",
                       KN_GRAPH_NESTING_MAX);
    e->seen += of->nodes.count;
    if (e->seen > KN_GRAPH_NODES_MAX)
        return kn_fail(e->err, KN_E_RANGE, "the workflow has more than %d nodes", KN_GRAPH_NODES_MAX);
    struct scope *scopes = kn_array_grow(e->scopes, e->scope_count, &e->scope_room, sizeof *scopes, e->err);
    if (!scopes)
        return false;
    e->scopes = scopes;
    uint32_t number = (uint32_t)e->scope_count++;
    scopes[number] = (struct scope){ .of = of, .outer = outer, .instance = instance };
    scopes[number].placed = calloc(of->nodes.count + 1, sizeof(uint32_t));
    if (!scopes[number].placed)
        return kn_fail_nomem(e->err, of->nodes.count * sizeof(uint32_t));
    if (instance && !(scopes[number].prefix = inner_prefix(e, &scopes[outer], id_of(kn_json_member(instance, "id")))))
        return false;
    return place_nodes(e, number, depth);
}

static bool is_passed_over(const kn_json_value *node) {
    static const char *const types[] = { "Note", "MarkdownNote", "Reroute" };
    for (size_t i = 0; i < KN_COUNT(types); i++)
        if (kn_json_is(type_of(node), types[i]))
            return true;
    return false;
}

static bool place_node(struct editor *e, uint32_t number, const kn_json_value *node, unsigned depth, uint32_t *ret) {
    const struct definition *inside = find_subgraph(e, node);
    uint64_t mode = NORMAL;
    *ret = KN_GRAPH_NOWHERE;
    if (!spend(e, node->count) || !read_mode(e, node, &mode))
        return false;
    if (mode != NORMAL || is_passed_over(node))
        return true;
    *ret = (uint32_t)(inside ? e->scope_count : e->place_count);
    if (inside)
        return add_scope(e, inside, number, node, depth + 1);
    struct place *places = kn_array_grow(e->places, e->place_count, &e->place_room, sizeof *places, e->err);
    if (!places)
        return false;
    e->places = places;
    places[e->place_count++] = (struct place){ number, node };
    return true;
}

static bool place_nodes(struct editor *e, uint32_t number, unsigned depth) {
    const struct definition *of = e->scopes[number].of;
    uint32_t *placed = e->scopes[number].placed; /* stays when the scopes move */
    for (size_t i = 0; i < of->nodes.count; i++)
        if (!place_node(e, number, of->nodes.at[i].value, depth, &placed[of->nodes.at[i].number]))
            return false;
    return true;
}

/* ---- where inputs come from ---- */

/* The link of a node's input. Empty: it has none. */
static kn_json_text link_of(const kn_json_value *input) {
    return id_of(kn_json_member(input, "link"));
}

static bool is_type(const kn_json_value *v, kn_json_text type) {
    kn_json_text own;
    return kn_json_value_text(kn_json_member(v, "type"), &own) && own.len == type.len &&
           memcmp(own.data, type.data, type.len) == 0;
}

/* What takes the place of an output when its node is bypassed: the input of the same type, the one at the same place
 * before others. */
static bool bypass(struct editor *e, const kn_json_value *node, uint64_t slot, kn_json_text *ret) {
    const kn_json_value *inputs = kn_json_member(node, "inputs");
    const kn_json_value *output = kn_json_at(kn_json_member(node, "outputs"), slot);
    kn_json_text type = type_of(output);
    *ret = no_text;
    if (!inputs || !type.len)
        return true;
    if (!spend(e, inputs->count + kn_json_member(node, "outputs")->count))
        return false;
    const kn_json_value *same = kn_json_at(inputs, slot);
    if (!same || !is_type(same, type))
        for (same = inputs->first; same && !is_type(same, type); same = same->next) {
        }
    *ret = link_of(same);
    return true;
}

/* The link that feeds an output of a subgraph. */
static bool inner_link(struct editor *e, const struct definition *inside, uint64_t slot, kn_json_text *ret) {
    *ret = no_text;
    for (size_t i = 0; i < inside->links.count; i++)
        if (kn_json_is(inside->edges[i].to, "-20") && inside->edges[i].to_slot == slot)
            *ret = inside->edges[i].id;
    return spend(e, inside->links.count);
}

/* The value that a subgraph's own widget has for one of its inputs. */
static const kn_json_value *outer_widget(const kn_json_value *instance, const kn_json_value *input) {
    size_t before = 0;
    if (!kn_json_member(input, "widget"))
        return NULL;
    for (const kn_json_value *v = kn_json_member(instance, "inputs")->first; v != input; v = v->next)
        before += kn_json_member(v, "widget") != NULL;
    const kn_json_value *value = kn_json_at(kn_json_member(instance, "widgets_values"), before);
    return value && value->kind != KN_JSON_NULL ? value : NULL;
}

/* From a node that is there. *link: where it goes on; empty: nowhere. */
static bool pass_node(struct editor *e, uint32_t *scope, const struct edge *edge, const kn_graph_name *from,
                      kn_json_text *link, struct source *ret) {
    const struct scope *s = &e->scopes[*scope];
    const struct definition *inside = find_subgraph(e, from->value);
    uint64_t mode = NORMAL;
    *link = no_text;
    if (!spend(e, from->value->count) || !read_mode(e, from->value, &mode))
        return false;
    if (mode == BYPASSED)
        return bypass(e, from->value, edge->from_slot, link);
    if (mode == MUTED) {
        ret->kind = LOST;
    } else if (inside) {
        *scope = s->placed[from->number];
        return inner_link(e, inside, edge->from_slot, link);
    } else if (kn_json_is(type_of(from->value), "Reroute")) {
        *link = link_of(kn_json_at(kn_json_member(from->value, "inputs"), 0));
    } else {
        *ret = (struct source){ .kind = FROM_NODE, .node = s->placed[from->number], .slot = (uint32_t)edge->from_slot };
    }
    return true;
}

/* From what is outside of the subgraph. */
static bool pass_border(struct editor *e, uint32_t *scope, const struct edge *edge, kn_json_text *link,
                        struct source *ret) {
    const struct scope *s = &e->scopes[*scope];
    const kn_json_value *inputs = kn_json_member(s->instance, "inputs");
    const kn_json_value *input = kn_json_at(inputs, edge->from_slot);
    *link = link_of(input);
    *scope = s->outer;
    ret->widget = outer_widget(s->instance, input);
    ret->kind = ret->widget ? FROM_WIDGET : UNSET;
    return spend(e, input ? inputs->count + input->count : 0);
}

static bool find_source(struct editor *e, uint32_t scope, kn_json_text link, struct source *ret) {
    *ret = (struct source){ .kind = UNSET };
    for (size_t met = 0; link.len; met++) {
        const struct definition *of = e->scopes[scope].of;
        const kn_graph_name *found = kn_graph_names_find(&of->links, link);
        const struct edge *edge = found ? &of->edges[found->number] : NULL;
        const kn_graph_name *from = edge ? kn_graph_names_find(&of->nodes, edge->from) : NULL;
        bool from_outside = edge && kn_json_is(edge->from, "-10");
        *ret = (struct source){ .kind = UNSET };
        if (met == WAY_MAX)
            return refuse_links(e);
        if (!spend(e, 1))
            return false;
        if (!from && !from_outside) {
            *ret = (struct source){ .kind = FROM_NODE, .node = KN_GRAPH_NOWHERE };
            return true;
        }
        if (!(from_outside ? pass_border(e, &scope, edge, &link, ret) : pass_node(e, &scope, edge, from, &link, ret)))
            return false;
    }
    return true;
}

/* ---- inputs ---- */

enum { WIDGETS = 7 };

/* In the order in which the editor stores their values. */
static const struct widgets {
    const char *type;
    const char *names[WIDGETS];
} widgets[] = {
    { "KSampler", { "seed", KN_GRAPH_CONTROL, "steps", "cfg", "sampler_name", "scheduler", "denoise" } },
    { "RandomNoise", { "noise_seed", KN_GRAPH_CONTROL } },
    { "BasicScheduler", { "scheduler", "steps", "denoise" } },
    { "KSamplerSelect", { "sampler_name" } },
    { "ManualSigmas", { "sigmas" } },
    { "CFGGuider", { "cfg" } },
    { "UNETLoader", { "unet_name", "weight_dtype" } },
    { "UnetLoaderGGUF", { "unet_name" } },
    { "CLIPLoader", { "clip_name", "type", "device" } },
    { "VAELoader", { "vae_name" } },
    { "CLIPTextEncode", { "text" } },
    { "TextEncodeQwenImage21", { "prompt", "negative_prompt", "resolution" } },
    { "EmptySD3LatentImage", { "width", "height", "batch_size" } },
    { "EmptyLatentImage", { "width", "height", "batch_size" } },
    { "ModelSamplingAuraFlow", { "shift" } },
    { "QwenImage21Cache", { "device", "dtype" } },
    { "ResolutionSelector", { "aspect_ratio", "megapixels", "multiple" } },
    { "ComfySwitchNode", { "switch" } },
    { "PrimitiveNode", { "value", KN_GRAPH_CONTROL } },
    { "PrimitiveInt", { "value", KN_GRAPH_CONTROL } },
    { "PrimitiveFloat", { "value" } },
    { "PrimitiveBoolean", { "value" } },
    { "PrimitiveString", { "value" } },
    { "PrimitiveStringMultiline", { "value" } },
    { "LoadImage", { "image", "kind" } },
    { "SaveImageAdvanced", { "filename_prefix", "format", "format.bit_depth" } },
};

static const struct widgets *find_widgets(kn_json_text type) {
    for (size_t i = 0; i < KN_COUNT(widgets); i++)
        if (kn_json_is(type, widgets[i].type))
            return &widgets[i];
    return NULL;
}

/* Where a node's input of that name comes from, if it has a link. */
static bool find_linked(struct editor *e, const struct place *p, const kn_json_value *input, struct source *ret) {
    *ret = (struct source){ .kind = UNSET };
    return !link_of(input).len || find_source(e, p->scope, link_of(input), ret);
}

/* One that has no value is not there for its node. */
static bool add_linked(struct editor *e, const struct place *p, const kn_json_value *input) {
    kn_graph_input to = { .name = no_text };
    struct source from;
    if (!spend(e, input->count) || !find_linked(e, p, input, &from))
        return false;
    if (from.kind == UNSET || from.kind == LOST || !kn_json_value_text(kn_json_member(input, "name"), &to.name))
        return true;
    to.literal = from.kind == FROM_WIDGET ? from.widget : NULL;
    to.from = from.node;
    to.slot = from.slot;
    return kn_graph_add_input(&e->graph, &to, e->err);
}

/* A widget that has become an input still has its place in the list, but only counts if nothing was ever linked. */
static bool is_lost(struct editor *e, const struct place *p, const char *name, bool *ret) {
    const kn_json_value *inputs = kn_json_member(p->node, "inputs");
    *ret = false;
    for (const kn_json_value *v = inputs ? inputs->first : NULL; v; v = v->next) {
        kn_json_text own;
        struct source from;
        if (!kn_json_value_text(kn_json_member(v, "name"), &own) || !kn_json_is(own, name))
            continue;
        if (!spend(e, inputs->count) || !find_linked(e, p, v, &from))
            return false;
        *ret = from.kind == LOST;
    }
    return true;
}

static bool add_widgets(struct editor *e, const struct place *p, uint32_t node) {
    const struct widgets *w = find_widgets(type_of(p->node));
    const kn_json_value *values = kn_json_member(p->node, "widgets_values");
    const kn_json_value *v = values && values->kind == KN_JSON_ARRAY ? values->first : NULL;
    for (size_t i = 0; w && v && i < WIDGETS && w->names[i]; i++, v = v->next) {
        bool lost = false;
        if (kn_graph_find(&e->graph, node, w->names[i]))
            continue;
        if (!is_lost(e, p, w->names[i], &lost))
            return false;
        const kn_graph_input input = { .name = { w->names[i], strlen(w->names[i]) }, .literal = v };
        if (!lost && !kn_graph_add_input(&e->graph, &input, e->err))
            return false;
    }
    return true;
}

static bool add_nodes(struct editor *e) {
    for (size_t i = 0; i < e->place_count; i++) {
        const struct place *p = &e->places[i];
        const char *prefix = e->scopes[p->scope].prefix;
        const kn_json_text outer = { prefix, prefix ? strlen(prefix) : 0 };
        const kn_json_value *inputs = kn_json_member(p->node, "inputs");
        if (!spend(e, p->node->count))
            return false;
        if (!kn_graph_add_node(&e->graph, outer, id_of(kn_json_member(p->node, "id")), type_of(p->node), e->err))
            return false;
        for (const kn_json_value *v = inputs ? inputs->first : NULL; v; v = v->next)
            if (!add_linked(e, p, v))
                return false;
        if (!add_widgets(e, p, (uint32_t)i))
            return false;
    }
    return true;
}

bool kn_graph_read_edited(kn_json_text text, kn_graph *ret, kn_error *err) {
    struct editor e = { .work_left = WORK_MAX, .err = err };
    bool ok = kn_json_tree_read(text, "the workflow", KN_GRAPH_VALUES_MAX, &e.graph.tree, err) &&
              add_definitions(&e, e.graph.tree.root) && add_scope(&e, &e.definitions[0], 0, NULL, 0) && add_nodes(&e);
    for (size_t i = 0; i < e.definition_count; i++) {
        free(e.definitions[i].nodes.at);
        free(e.definitions[i].links.at);
        free(e.definitions[i].edges);
    }
    for (size_t i = 0; i < e.scope_count; i++) {
        free(e.scopes[i].prefix);
        free(e.scopes[i].placed);
    }
    free(e.definitions);
    free(e.subgraphs.at);
    free(e.scopes);
    free(e.places);
    if (ok)
        *ret = e.graph;
    else
        kn_graph_free(&e.graph);
    return ok;
}
