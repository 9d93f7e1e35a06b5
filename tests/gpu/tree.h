/* The trees of /sys and /dev/dri that a scenario describes, with the kernel's links between them. */
#ifndef KN_TESTS_GPU_TREE_H
#define KN_TESTS_GPU_TREE_H

/* Below root, which must exist. Render nodes are plain files; fake_drm.c answers for them. */
void tree_make(const char *root);

/* Writes one file below root. */
void tree_write(const char *root, const char *file, const char *text);

#endif
