/*
 * What libpcp makes of derived metrics: definitions, descriptors, messages, values.
 *
 * Compiled twice. With -DAGENT it is an agent that libpcp loads for local contexts; its callbacks only
 * lead back here. Without, it is the program: it reads a batch of metrics, instances, values, times and
 * definitions, runs it in a child of its own (a fresh process state, and libpcp may crash on some), and
 * answers with lines. The clock that libpcp reads is the batch's.
 *
 * usage: derive_oracle AGENT.so PMNS FILL
 *
 * FILL is a byte that all memory is filled with when it is allocated and when it is freed, and that follows each
 * block, so that answers that differ between two fillings are seen to depend on memory contents: on what was never
 * set, on what was released, on what lies behind the end of a list.
 *
 * input:
 *   inst SERIAL SAMPLE ID NAME        metric ITEM TYPE SERIAL|-1 SEMANTICS UNITS(six numbers) ERROR
 *   indom SERIAL                      set SAMPLE ITEM NUMVAL INSITU    v ID HEX
 *   time SAMPLE SEC NSEC              def g|c NAME HEX-OF-EXPRESSION   fetch SAMPLE INDEX...
 *   run                               answered with lines, the last one being "end"
 */
#define _GNU_SOURCE
#include <pcp/pmapi.h>
#include <pcp/pmda.h>

#ifdef AGENT

void derive_oracle_agent(pmdaInterface *);
void derive_oracle_init(pmdaInterface *dp) { derive_oracle_agent(dp); }

#else

#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define DOMAIN_NUMBER 245
#define MAX_SAMPLES 32
#define MAX_ITEMS 64
#define MAX_DEFS 256
#define MAX_LIST 512
#define MAX_LINE (1 << 20)

/* ---- memory: libpcp's malloc() is this one, as it is the program's ---- */

#define MARGIN 320
/* lengths that libpcp takes from what was never set can be huge: of such blocks only the beginning is filled */
#define FILLED (1 << 20)

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

static int fill;

struct block { void *from; size_t size; };

static struct block *block_of(void *p)
{
	return (struct block *)p - 1;
}

static void fill_block(void *p, size_t size)
{
	memset(p, fill, size + MARGIN < FILLED ? size + MARGIN : FILLED);
}

void *memalign(size_t alignment, size_t size)
{
	size_t at = alignment < sizeof(struct block) ? sizeof(struct block) : alignment;
	char *from, *p;

	if (size > SIZE_MAX / 2 || (from = __libc_malloc(size + 2 * at + MARGIN)) == NULL)
		return NULL;
	p = (char *)(((uintptr_t)from + sizeof(struct block) + at - 1) & ~(at - 1));
	*block_of(p) = (struct block){ from, size };
	fill_block(p, size);
	return p;
}

void *malloc(size_t size) { return memalign(sizeof(struct block), size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void *valloc(size_t size) { return memalign(4096, size); }
size_t malloc_usable_size(void *p) { return p ? block_of(p)->size : 0; }

int posix_memalign(void **p, size_t alignment, size_t size)
{
	return (*p = memalign(alignment, size)) ? 0 : ENOMEM;
}

void *calloc(size_t count, size_t size)
{
	void *p = size && count > SIZE_MAX / 2 / size ? NULL : malloc(count * size);

	return p ? memset(p, 0, count * size) : NULL;
}

void free(void *p)
{
	void *from;

	if (p == NULL)
		return;
	from = block_of(p)->from;
	fill_block(p, block_of(p)->size);
	__libc_free(from);
}

void *realloc(void *old, size_t size)
{
	void *p = malloc(size);

	if (p && old) {
		memcpy(p, old, block_of(old)->size < size ? block_of(old)->size : size);
		free(old);
	}
	return p;
}

struct instance { int serial, sample, id; char *name; };
struct value { int id, len; char *bytes; };
struct set { int numval, insitu, count; struct value *values; };

static pmDesc descs[MAX_ITEMS];
static int errors[MAX_ITEMS];
static struct set sets[MAX_SAMPLES][MAX_ITEMS];
static struct timespec times[MAX_SAMPLES];
static struct instance *instances;
static int ninstances, indoms[MAX_ITEMS], nindoms;
static struct { int scope; char *name, *expr; } defs[MAX_DEFS];
static int ndefs;
static struct { int sample, count, list[MAX_LIST]; } fetches[MAX_SAMPLES];
static int nfetches;
static int now;

static void die(const char *format, ...)
{
	va_list args;

	printf("oracle: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

/* Memory until the end of the batch, all zero. */
static char arena[16 << 20];
static size_t arena_used;

static void *keep(size_t size)
{
	void *p = arena + arena_used;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(arena) - arena_used)
		die("the batch is too large");
	arena_used += size;
	return memset(p, 0, size);
}

static char *keep_text(const char *text)
{
	return strcpy(keep(strlen(text) + 1), text);
}

/* libpcp's clock: the time of the sample */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_REALTIME)
		return syscall(SYS_clock_gettime, id, ts);
	*ts = times[now];
	return 0;
}

/* ---- the agent ---- */

static int do_profile(pmProfile *profile, pmdaExt *ext) { return 0; }
static int do_store(pmResult *result, pmdaExt *ext) { return PM_ERR_PERMISSION; }
static int do_text(int ident, int type, char **text, pmdaExt *ext) { return PM_ERR_TEXT; }

static int do_desc(pmID pmid, pmDesc *desc, pmdaExt *ext)
{
	unsigned item = pmID_item(pmid);

	if (item >= MAX_ITEMS || errors[item] < 0)
		return item >= MAX_ITEMS ? PM_ERR_PMID : errors[item];
	*desc = descs[item];
	return 0;
}

static pmValueSet *make_set(pmID pmid)
{
	struct set *s = &sets[now][pmID_item(pmid)];
	int i, count = s->numval > 0 ? s->numval : 0;
	pmValueSet *vs = malloc(sizeof(*vs) + count * sizeof(pmValue));

	vs->pmid = pmid;
	vs->numval = s->numval;
	vs->valfmt = s->insitu ? PM_VAL_INSITU : PM_VAL_DPTR;
	for (i = 0; i < count; i++) {
		struct value *v = &s->values[i];

		vs->vlist[i].inst = v->id;
		if (s->insitu) {
			vs->vlist[i].value.lval = 0;
			memcpy(&vs->vlist[i].value.lval, v->bytes, v->len < 4 ? v->len : 4);
		} else {
			pmValueBlock *block = malloc(PM_VAL_HDR_SIZE + v->len + 8);

			block->vtype = descs[pmID_item(pmid)].type;
			block->vlen = PM_VAL_HDR_SIZE + v->len;
			memcpy(block->vbuf, v->bytes, v->len);
			vs->vlist[i].value.pval = block;
		}
	}
	return vs;
}

static int do_fetch(int count, pmID *pmids, pmResult **result, pmdaExt *ext)
{
	static pmResult *r;
	int i;

	r = realloc(r, sizeof(*r) + count * sizeof(pmValueSet *));
	r->numpmid = count;
	for (i = 0; i < count; i++)
		r->vset[i] = make_set(pmids[i]);
	*result = r;
	return 0;
}

static int do_instance(pmInDom indom, int id, char *name, pmInResult **result, pmdaExt *ext)
{
	pmInResult *in;
	int i, serial = pmInDom_serial(indom), known = 0;

	for (i = 0; i < nindoms; i++)
		known |= indoms[i] == serial;
	if (!known)
		return PM_ERR_INDOM;
	in = malloc(sizeof(*in));
	in->indom = indom;
	in->numinst = 0;
	in->instlist = malloc((ninstances + 1) * sizeof(int));
	in->namelist = malloc((ninstances + 1) * sizeof(char *));
	for (i = 0; i < ninstances; i++) {
		struct instance *inst = &instances[i];

		if (inst->serial != serial || inst->sample != now)
			continue;
		if (name ? strcmp(name, inst->name) != 0 : id != PM_IN_NULL && id != inst->id)
			continue;
		in->instlist[in->numinst] = inst->id;
		in->namelist[in->numinst++] = strdup(inst->name);
		if (name || id != PM_IN_NULL)
			break;
	}
	*result = in;
	if (in->numinst == 0 && (name || id != PM_IN_NULL)) {
		free(in->instlist);
		free(in->namelist);
		free(in);
		return PM_ERR_INST;
	}
	/* only what was asked for is given */
	if (name) {
		free(in->namelist[0]);
		free(in->namelist);
		in->namelist = NULL;
	} else if (id != PM_IN_NULL) {
		free(in->instlist);
		in->instlist = NULL;
	}
	return 0;
}

void derive_oracle_agent(pmdaInterface *dp)
{
	static pmdaExt ext;

	dp->comm.pmda_interface = PMDA_INTERFACE_2;
	dp->comm.pmapi_version = PMAPI_VERSION;
	dp->status = 0;
	dp->version.any.ext = &ext;
	dp->version.any.profile = do_profile;
	dp->version.any.fetch = do_fetch;
	dp->version.any.desc = do_desc;
	dp->version.any.instance = do_instance;
	dp->version.any.text = do_text;
	dp->version.any.store = do_store;
}

/* ---- the answers ---- */

static void put_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", stdout);
		else if (*text == '\\')
			fputs("\\\\", stdout);
		else
			putchar(*text);
	}
}

/* What libpcp has printed since the last call. */
static void put_messages(int k)
{
	static char text[MAX_LINE];
	static off_t done;
	ssize_t n;

	pmflush();
	fflush(stderr);
	n = pread(2, text, sizeof(text) - 1, done);
	if (n <= 0)
		return;
	done += n;
	text[n] = '\0';
	printf("msg %d ", k);
	put_text(text);
	printf("\n");
}

static void put_value(int type, int valfmt, pmValue *v)
{
	unsigned char *bytes = (unsigned char *)&v->value.lval;
	int i, len = 4;
	pmAtomValue atom;

	if (valfmt != PM_VAL_INSITU) {
		bytes = (unsigned char *)v->value.pval->vbuf;
		len = v->value.pval->vlen - PM_VAL_HDR_SIZE;
	}
	printf(" %d=", v->inst);
	memset(&atom, 0, sizeof(atom));
	memcpy(&atom, bytes, len < (int)sizeof(atom) ? len : (int)sizeof(atom));
	switch (type) {
	case PM_TYPE_32: printf("%d", atom.l); break;
	case PM_TYPE_U32: printf("%u", atom.ul); break;
	case PM_TYPE_64: printf("%lld", (long long)atom.ll); break;
	case PM_TYPE_U64: printf("%llu", (unsigned long long)atom.ull); break;
	case PM_TYPE_FLOAT:
		if (atom.f != atom.f) printf("nan"); else printf("f%08x", atom.ul);
		break;
	case PM_TYPE_DOUBLE:
		if (atom.d != atom.d) printf("nan"); else printf("d%016llx", (unsigned long long)atom.ull);
		break;
	case PM_TYPE_STRING:
		if (len > 0 && bytes[len - 1] == '\0')
			len--;
		/* fall through */
	default:
		printf("x");
		for (i = 0; i < len; i++)
			printf("%02x", bytes[i]);
	}
}

/* Text that leaves no trace of earlier parses in the parser: it fails, after a matchinst() and a mkconst(). */
#define CLEANSER "matchinst(/x/,a) + mkconst(1,type=32) b"

static void define(int k)
{
	char *message = NULL;
	int i, sts;

	for (i = 0; i < 2; i++) {
		if (pmRegisterDerivedMetric("cleanser", CLEANSER, &message) == 0)
			die("the cleansing expression was accepted");
		free(message);
		message = NULL;
	}
	if (defs[k].scope == 'g')
		sts = pmRegisterDerivedMetric(defs[k].name, defs[k].expr, &message);
	else
		sts = pmAddDerivedMetric(defs[k].name, defs[k].expr, &message);
	printf("reg %d %d ", k, sts);
	if (message)
		put_text(message);
	printf("\n");
	put_messages(k);
}

static void run(void)
{
	static pmDesc found[MAX_DEFS];
	static pmID pmids[MAX_DEFS];
	const char *anything;
	int i, k, f, sts, fd = memfd_create("messages", 0);

	prctl(PR_SET_DUMPABLE, 0);
	dup2(fd, 2);
	alarm(20);
	if ((sts = pmNewContext(PM_CONTEXT_LOCAL, NULL)) < 0)
		die("pmNewContext: %s", pmErrStr(sts));
	for (k = 0; k < ndefs; k++)
		if (defs[k].scope == 'g')
			define(k);
	/*
	 * The context must have taken all global ones over before it gets some of its own, or libpcp mixes
	 * their expressions up.
	 */
	anything = "count";
	pmLookupName(1, &anything, &pmids[0]);
	anything = "no.such";
	pmLookupName(1, &anything, &pmids[0]);
	for (k = 0; k < ndefs; k++)
		if (defs[k].scope != 'g')
			define(k);
	for (k = 0; k < ndefs; k++) {
		const char *name = defs[k].name;
		pmUnits *u = &found[k].units;

		pmids[k] = PM_ID_NULL;
		sts = pmLookupName(1, &name, &pmids[k]);
		if (sts < 0) {
			printf("desc %d %d\n", k, sts);
			pmids[k] = PM_ID_NULL;
			continue;
		}
		printf("desc %d 0x%x ", k, pmids[k]);
		sts = pmLookupDesc(pmids[k], &found[k]);
		if (sts < 0)
			printf("%d\n", sts);
		else
			printf("type %d indom 0x%x sem %d units %d %d %d %d %d %d\n", found[k].type, found[k].indom,
				found[k].sem, u->dimSpace, u->dimTime, u->dimCount,
				(int)u->scaleSpace, (int)u->scaleTime, u->scaleCount);
		put_messages(k);
	}
	for (f = 0; f < nfetches; f++) {
		pmHighResResult *result;
		pmID list[MAX_LIST];
		int which[MAX_LIST], n = 0;

		now = fetches[f].sample;
		for (i = 0; i < fetches[f].count; i++)
			if (pmids[fetches[f].list[i]] != PM_ID_NULL) {
				which[n] = fetches[f].list[i];
				list[n] = pmids[which[n]];
				n++;
			}
		if (n == 0)
			continue;
		sts = pmFetchHighRes(n, list, &result);
		if (sts < 0) {
			printf("fetch %d %d\n", f, sts);
			continue;
		}
		if (result->timestamp.tv_sec != times[now].tv_sec || result->timestamp.tv_nsec != times[now].tv_nsec)
			_exit(3); /* libpcp has overwritten its result */
		for (i = 0; i < n; i++) {
			pmValueSet *vs = result->vset[i];
			int j;

			printf("val %d %d %d %d", which[i], f, i, vs->numval);
			for (j = 0; j < vs->numval && pmID_domain(vs->pmid) != DOMAIN_NUMBER; j++)
				put_value(found[which[i]].type, vs->valfmt, &vs->vlist[j]);
			printf("\n");
			put_messages(which[i]);
		}
		pmFreeHighResResult(result);
	}
	fflush(stdout);
	_exit(0);
}

/* ---- the input ---- */

static char *unhex(const char *hex, int *len)
{
	int n = strlen(hex) / 2, i;
	char *bytes = keep(n + 1);

	for (i = 0; i < n; i++) {
		unsigned byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			die("bad hex: %s", hex);
		bytes[i] = byte;
	}
	bytes[n] = '\0';
	if (len)
		*len = n;
	return bytes;
}

static void read_list(char *line)
{
	int n, sample, used;

	if (sscanf(line, "fetch %d%n", &sample, &used) != 1 || sample < 0 || sample >= MAX_SAMPLES ||
	    nfetches == MAX_SAMPLES)
		die("bad line: %s", line);
	fetches[nfetches].sample = sample;
	fetches[nfetches].count = 0;
	for (line += used; sscanf(line, "%d%n", &n, &used) == 1; line += used) {
		if (n < 0 || n >= ndefs || fetches[nfetches].count == MAX_LIST)
			die("bad fetch");
		fetches[nfetches].list[fetches[nfetches].count++] = n;
	}
	nfetches++;
}

static void forget(void)
{
	memset(descs, 0, sizeof(descs));
	memset(errors, 0, sizeof(errors));
	memset(sets, 0, sizeof(sets));
	ninstances = nindoms = ndefs = nfetches = 0;
	arena_used = 0;
}

static int in(int n, int limit) { return n >= 0 && n < limit; }

static void batch(void)
{
	static char line[MAX_LINE], text[MAX_LINE], name[1024];
	struct set *set = NULL;

	while (fgets(line, sizeof(line), stdin)) {
		int sample, item, a, b, c, d[6], used;
		long sec, nsec;
		char scope;

		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "run") == 0) {
			int status;
			pid_t pid;

			fflush(stdout);
			if ((pid = fork()) == 0)
				run();
			if (pid < 0 || waitpid(pid, &status, 0) != pid)
				die("fork");
			if (WIFSIGNALED(status))
				printf("\ncrash signal %d\n", WTERMSIG(status));
			else if (WEXITSTATUS(status) != 0)
				printf("\ncrash exit %d\n", WEXITSTATUS(status));
			printf("end\n");
			fflush(stdout);
			forget();
		} else if (sscanf(line, "indom %d", &a) == 1 && nindoms < MAX_ITEMS) {
			indoms[nindoms++] = a;
		} else if (sscanf(line, "inst %d %d %d %n", &a, &sample, &b, &used) == 3 && in(sample, MAX_SAMPLES)) {
			instances = realloc(instances, (ninstances + 1) * sizeof(*instances));
			instances[ninstances++] = (struct instance){ a, sample, b, keep_text(line + used) };
		} else if (sscanf(line, "metric %d %d %d %d %d %d %d %d %d %d %d", &item, &a, &b, &c, &d[0], &d[1], &d[2],
				  &d[3], &d[4], &d[5], &used) == 11 && in(item, MAX_ITEMS)) {
			descs[item].pmid = pmID_build(DOMAIN_NUMBER, 0, item);
			descs[item].type = a;
			descs[item].indom = b < 0 ? PM_INDOM_NULL : pmInDom_build(DOMAIN_NUMBER, b);
			descs[item].sem = c;
			descs[item].units = (pmUnits){ .dimSpace = d[0], .dimTime = d[1], .dimCount = d[2],
				.scaleSpace = d[3], .scaleTime = d[4], .scaleCount = d[5] };
			errors[item] = used;
		} else if (sscanf(line, "set %d %d %d %d", &sample, &item, &a, &b) == 4 && in(sample, MAX_SAMPLES) &&
			   in(item, MAX_ITEMS)) {
			set = &sets[sample][item];
			*set = (struct set){ a, b, 0, a > 0 ? keep(a * sizeof(struct value)) : NULL };
		} else if (sscanf(line, "v %d %s", &a, text) == 2 && set && set->count < set->numval) {
			struct value *v = &set->values[set->count++];

			v->id = a;
			v->bytes = unhex(text + 1, &v->len);
		} else if (sscanf(line, "time %d %ld %ld", &sample, &sec, &nsec) == 3 && in(sample, MAX_SAMPLES)) {
			times[sample] = (struct timespec){ sec, nsec };
		} else if (sscanf(line, "def %c %1023s %s", &scope, name, text) == 3 && ndefs < MAX_DEFS) {
			defs[ndefs].scope = scope;
			defs[ndefs].name = keep_text(name);
			defs[ndefs++].expr = unhex(text + 1, NULL);
		} else if (strncmp(line, "fetch ", 6) == 0) {
			read_list(line);
		} else {
			die("bad line: %s", line);
		}
	}
}

int main(int argc, char **argv)
{
	char spec[4096], *error;
	int sts;

	if (argc != 4)
		die("usage: derive_oracle AGENT.so PMNS FILL");
	fill = atoi(argv[3]);
	setenv("PCP_DERIVED_CONFIG", "", 1);
	if ((sts = pmLoadASCIINameSpace(argv[2], 0)) < 0)
		die("%s: %s", argv[2], pmErrStr(sts));
	pmSpecLocalPMDA("clear");
	snprintf(spec, sizeof(spec), "add,%d,%s,derive_oracle_init", DOMAIN_NUMBER, argv[1]);
	if ((error = pmSpecLocalPMDA(spec)) != NULL)
		die("%s: %s", argv[1], error);
	printf("ready %s\n", pmGetConfig("PCP_VERSION"));
	fflush(stdout);
	batch();
	return 0;
}

#endif
