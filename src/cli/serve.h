/* kuno serve: what its command line says. The work itself is serve_run.c's. */
#ifndef KN_CLI_SERVE_H
#define KN_CLI_SERVE_H

typedef struct kn_serve_options {
    const char *config;
} kn_serve_options;

/* Returns the exit status; says on standard error what went wrong. */
int kn_serve_run(const kn_serve_options *o);

#endif
