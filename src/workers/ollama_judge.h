/* Whether an Ollama that has started is the worker that was configured: on its port, with its device and no other. */
#ifndef KN_WORKERS_OLLAMA_JUDGE_H
#define KN_WORKERS_OLLAMA_JUDGE_H

#include "workers/ollama_log.h"
#include "workers/ollama_worker.h"

/* NULL: it is; else a fixed word. */
const char *kn_ollama_judge(const kn_ollama_log *l, const kn_worker_config *c);

/* A number for all that makes loads of one model differ between workers: backend, place, version, driver. */
uint64_t kn_ollama_settings(const kn_ollama_log *l, const kn_worker_config *c);

#endif
