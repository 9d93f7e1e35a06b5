// What is painted on a picture, as strokes: small to keep, easy to take back, and the same at every size.
//
// A stroke is { erase, radius, points: [x, y, x, y, …] } in pixels of the picture, or { all: true },
// { invert: true }, { image } for a mask that was painted earlier. Pure but for what is drawn: tests/web/pure.test.mjs.

export function makeHistory(strokes = []) {
    let done = [...strokes],
        undone = [];
    return {
        get strokes() {
            return done;
        },
        get canUndo() {
            return done.length > 0;
        },
        get canRedo() {
            return undone.length > 0;
        },
        add(stroke) {
            done.push(stroke);
            undone = [];
        },
        undo() {
            if (done.length) undone.push(done.pop());
        },
        redo() {
            if (undone.length) done.push(undone.pop());
        },
        clear() {
            // An empty picture is a stroke, too: it can be taken back.
            if (done.length) this.add({ all: true, erase: true });
        },
    };
}

// One stroke in full opacity, or taken away. grow: so many pixels wider on every side.
export function drawStroke(context, stroke, { scale, width, height, grow = 0 }) {
    context.globalCompositeOperation = stroke.invert ? "xor" : stroke.erase ? "destination-out" : "source-over";
    if (stroke.image) {
        context.drawImage(stroke.image, 0, 0, width * scale, height * scale);
        return;
    }
    if (stroke.all || stroke.invert) {
        context.fillRect(0, 0, width * scale, height * scale);
        return;
    }
    const radius = Math.max(0.5, stroke.radius + (stroke.erase ? -grow : grow)) * scale,
        at = stroke.points;
    context.lineWidth = 2 * radius;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(at[0] * scale, at[1] * scale);
    // A line of no length is a dot only if it is drawn at all.
    context.lineTo(at[0] * scale + 0.01, at[1] * scale);
    for (let i = 2; i < at.length; i += 2) context.lineTo(at[i] * scale, at[i + 1] * scale);
    context.stroke();
}

export function drawStrokes(context, strokes, how) {
    context.globalCompositeOperation = "source-over";
    context.clearRect(0, 0, how.width * how.scale, how.height * how.scale);
    for (const stroke of strokes) drawStroke(context, stroke, how);
}

// One way over distances, which are lowered to one more than those that were passed before.
function sweep(far, width, turn) {
    const last = far.length - 1,
        above = turn * width;
    for (let n = 0; n <= last; n++) {
        const i = turn > 0 ? n : last - n,
            x = i % width;
        if (!far[i]) continue;
        const before = turn > 0 ? x > 0 : x < width - 1,
            behind = turn > 0 ? x < width - 1 : x > 0;
        let least = far[i] - 1;
        if (before) least = Math.min(least, far[i - turn]);
        if (n >= width) {
            least = Math.min(least, far[i - above]);
            if (before) least = Math.min(least, far[i - above - turn]);
            if (behind) least = Math.min(least, far[i - above + turn]);
        }
        far[i] = least + 1;
    }
}

// How much of what is drawn will be shown: as in the engine, it fades over so many pixels inside of the area's edge.
// rgba: the area is what is opaque in it.
export function feather(rgba, width, height, pixels) {
    const most = Math.ceil(pixels) + 1,
        far = new Uint16Array(width * height);
    for (let i = 0; i < far.length; i++) far[i] = rgba[4 * i + 3] >= 128 ? most : 0;
    sweep(far, width, 1);
    sweep(far, width, -1);
    for (let i = 0; i < far.length; i++)
        rgba[4 * i + 3] = Math.round(rgba[4 * i + 3] * Math.min(1, far[i] / (pixels + 1)));
}

// Where a picture lies in a window, and how the two change into each other.
export function fitView(window, picture, margin = 24) {
    const scale = Math.min((window.width - 2 * margin) / picture.width, (window.height - 2 * margin) / picture.height);
    return {
        scale,
        x: (window.width - picture.width * scale) / 2 - (picture.x ?? 0) * scale,
        y: (window.height - picture.height * scale) / 2 - (picture.y ?? 0) * scale,
    };
}

// Larger or smaller around a point of the window, which stays where it is.
export function zoomView(view, factor, x, y, { least, most }) {
    const scale = Math.min(most, Math.max(least, view.scale * factor)),
        real = scale / view.scale;
    return { scale, x: x - (x - view.x) * real, y: y - (y - view.y) * real };
}

export const toPicture = (view, x, y) => [(x - view.x) / view.scale, (y - view.y) / view.scale];
