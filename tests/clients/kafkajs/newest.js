// Drives @platformatic/kafka, which speaks only the newest protocol versions:
// node newest.js <bootstrap> <topic>
// Prints one JSON line with what was seen; any error ends it with a non-zero exit code.
'use strict'

const { Admin, Consumer, Producer, ListOffsetTimestamps, stringSerializers, stringDeserializers } = require('@platformatic/kafka')

const [bootstrap, topic] = process.argv.slice(2)
const base = { clientId: 'ottla-test', bootstrapBrokers: [bootstrap] }
const TIMESTAMP = BigInt(Date.now() - 100000)

async function produce (compression) {
  const producer = new Producer({ ...base, serializers: stringSerializers })
  const messages = Array.from({ length: 100 }, (_, n) => ({
    topic,
    key: `${n}`,
    value: 'compressible '.repeat(n),
    headers: { n: `${n}` },
    partition: 1,
    timestamp: TIMESTAMP + BigInt(n)
  }))
  try {
    const { offsets } = await producer.send({ messages, compression })
    return offsets.map(place => `${place.partition}:${place.offset}`)
  } finally {
    await producer.close()
  }
}

// Reads without a group: one bare fetch of what lies on the partition.
async function fetchAll (topicId, node) {
  const consumer = new Consumer({ ...base, groupId: 'not-joined', deserializers: stringDeserializers })
  try {
    const partitions = [{ partition: 1, currentLeaderEpoch: -1, fetchOffset: 0n, lastFetchedEpoch: -1, logStartOffset: 0n, partitionMaxBytes: 1048576 }]
    const answer = await consumer.fetch({ node, topics: [{ topicId, partitions }], minBytes: 1, maxWaitTime: 1000 })
    const batches = answer.responses[0].partitions[0].records
    const all = Array.isArray(batches) ? batches.flatMap(batch => batch.records) : batches.records
    return all.map(record => record.key.toString())
  } finally {
    await consumer.close(true)
  }
}

async function main () {
  const admin = new Admin(base)
  try {
    const [created] = await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1 })
    await admin.metadata({ topics: [topic] })
    const sent = []
    for (const codec of ['none', 'gzip', 'snappy', 'lz4']) sent.push(...await produce(codec))
    const { brokers } = await admin.metadata({ topics: [topic] })
    const [node] = brokers.keys()
    const keys = await fetchAll(created.id, node)
    const timestamps = [ListOffsetTimestamps.EARLIEST, ListOffsetTimestamps.LATEST, TIMESTAMP + 7n]
    const offsets = []
    for (const timestamp of timestamps) {
      const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 1, timestamp }] }] })
      offsets.push(`${listed.partitions[0].offset}`)
    }
    await admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: [{ brokerIds: [node] }] }] })
    const [config] = await admin.describeConfigs({ resources: [{ resourceType: 2, resourceName: topic, configurationKeys: ['retention.ms'] }] })
    await admin.deleteTopics({ topics: [topic] })
    console.log(JSON.stringify({
      partitions: created.partitions,
      sent,
      keys,
      offsets,
      retention: config.configs[0].value,
      left: (await admin.listTopics()).includes(topic)
    }))
  } finally {
    await admin.close()
  }
}

main().catch(error => { console.error(error, error.errors, error.cause); process.exitCode = 1 })
