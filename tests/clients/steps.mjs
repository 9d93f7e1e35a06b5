// What the client programs in JavaScript share. Each says what came of a step in one line of JSON: ["step", result].
export const tell = (step, result) => console.log(JSON.stringify([step, result]));

export async function all(stream) {
  const parts = [];
  for await (const part of await stream) parts.push(part);
  return parts;
}

// The class, status and text of the error that has to come.
export async function error(promise) {
  try {
    await promise;
  } catch (failure) {
    return [failure.name, failure.status_code ?? failure.status, failure.message];
  }
  return 'no error';
}
