// The libraries of Node.js at a secured cluster: node secured_client.js <library> <settings as JSON>
// The same settings and lines as tests/clients/secured_client.py.
'use strict'

const fs = require('node:fs')

const [library, text] = process.argv.slice(2)
const given = JSON.parse(text)
const say = what => console.log(JSON.stringify(what))
const signal = () => {
  say({ ready: true })
  return new Promise(resolve => process.stdin.once('data', resolve))
}
const pause = () => new Promise(resolve => setTimeout(resolve, 20))
const values = Array.from({ length: given.count }, (_, n) => `value-${n}`)
const transacted = Array.from({ length: given.transacted }, (_, n) => `transacted-${n}`)
const wanted = given.count + given.transacted
const tls = given.protocol.endsWith('SSL')
  ? {
      ca: [fs.readFileSync(given.ca)],
      ...(given.protocol === 'SSL' ? { cert: fs.readFileSync(given.certificate), key: fs.readFileSync(given.key) } : {})
    }
  : undefined

function token () {
  const part = content => Buffer.from(JSON.stringify(content)).toString('base64url')
  const now = Math.floor(Date.now() / 1000)
  return `${part({ alg: 'none' })}.${part({ sub: given.user, iat: now, exp: now + 300 })}.`
}

async function kafkajs () {
  const { Kafka, logLevel } = require('kafkajs')
  const sasl = given.mechanism === 'OAUTHBEARER'
    ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token() }) }
    : { mechanism: (given.mechanism || '').toLowerCase(), username: given.user, password: given.password }
  const kafka = new Kafka({
    clientId: 'ottla-test',
    brokers: given.bootstrap.split(','),
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 30 },
    ssl: tls || false,
    ...(given.protocol.startsWith('SASL') ? { sasl } : {})
  })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: given.topic, numPartitions: 3, replicationFactor: given.replication }] })
  await admin.disconnect()
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  await signal()
  for (const value of values) {
    await producer.send({ topic: given.topic, messages: [{ value }] })
    await pause()
  }
  const writer = kafka.producer({ transactionalId: given.topic, idempotent: true, maxInFlightRequests: 1 })
  await writer.connect()
  for (const value of transacted) {
    const transaction = await writer.transaction()
    await transaction.send({ topic: given.topic, messages: [{ value }] })
    await transaction.commit()
  }
  await writer.disconnect()
  const read = new Set()
  const consumer = kafka.consumer({ groupId: given.topic, maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topic: given.topic, fromBeginning: true })
  await new Promise(resolve => consumer.run({
    eachMessage: async ({ message }) => {
      read.add(message.value.toString())
      if (read.size === wanted) resolve()
    }
  }))
  await consumer.disconnect()
  const refused = await producer.send({ topic: given.other, messages: [{ value: 'x' }] }).then(() => '', error => `${error.name}: ${error.message}`)
  await producer.disconnect()
  return { read: [...read].sort(), refused }
}

async function platformatic () {
  const { Admin, Consumer, Producer, stringSerializers, stringDeserializers } = require('@platformatic/kafka')
  const base = {
    clientId: 'ottla-test',
    bootstrapBrokers: given.bootstrap.split(','),
    retries: 30,
    retryDelay: 200,
    ...(tls ? { tls, tlsServerName: true } : {}),
    ...(given.protocol.startsWith('SASL')
      ? {
          sasl: given.mechanism === 'OAUTHBEARER'
            ? { mechanism: 'OAUTHBEARER', token }
            : { mechanism: given.mechanism, username: given.user, password: given.password }
        }
      : {})
  }
  const admin = new Admin(base)
  await admin.createTopics({ topics: [given.topic], partitions: 3, replicas: given.replication })
  await admin.close()
  const producer = new Producer({ ...base, serializers: stringSerializers, idempotent: true })
  await signal()
  for (const value of values) {
    await producer.send({ messages: [{ topic: given.topic, value }] })
    await pause()
  }
  const writer = new Producer({ ...base, serializers: stringSerializers, idempotent: true, transactionalId: given.topic })
  for (const value of transacted) {
    const transaction = await writer.beginTransaction()
    await transaction.send({ messages: [{ topic: given.topic, value }] })
    await transaction.commit()
  }
  await writer.close()
  const read = new Set()
  const consumer = new Consumer({ ...base, groupId: given.topic, deserializers: stringDeserializers, maxWaitTime: 200 })
  const stream = await consumer.consume({ topics: [given.topic], mode: 'earliest' })
  for await (const message of stream) {
    read.add(message.value)
    if (read.size === wanted) break
  }
  await consumer.close(true)
  const everything = error => [error.message, ...(error.errors || []).map(everything), error.cause ? everything(error.cause) : ''].join(' ')
  const refused = await producer.send({ messages: [{ topic: given.other, value: 'x' }] }).then(() => '', everything)
  await producer.close()
  return { read: [...read].sort(), refused }
}

const libraries = { kafkajs, platformatic }
libraries[library]().then(
  outcome => { say(outcome); process.exit(0) },
  error => { console.error(error, error.errors, error.cause); process.exit(1) }
)
